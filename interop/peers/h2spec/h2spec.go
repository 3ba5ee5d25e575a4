// Package h2spec names what is built here, so that go.mod and go.sum list it.
package h2spec

import _ "github.com/summerwind/h2spec"
