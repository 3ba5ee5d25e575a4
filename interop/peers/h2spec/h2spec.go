// Package h2spec imports the program that h2spec.sh builds, so that go.mod and go.sum list its modules.
package h2spec

import _ "github.com/summerwind/h2spec"
