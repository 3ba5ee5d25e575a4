#!/usr/bin/env python3
"""Prints a bill of materials (CycloneDX 1.5, JSON): each crate in a build of the program, with version, licence and digest.

    packaging/sbom.py > anabranch.cdx.json

Needs cargo. Development dependencies and crates for other systems are left out.
"""

import json
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
METADATA = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]


def main() -> None:
    told = json.loads(subprocess.run(METADATA, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    digests = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    program = next(package for package in told["packages"] if package["name"] == "anabranch-cli")
    # Follow the edges of a build; those that are only for development are left out.
    wanted, found = [program["id"]], set()
    while wanted:
        one = wanted.pop()
        if one in found:
            continue
        found.add(one)
        for dependency in nodes[one]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                wanted.append(dependency["pkg"])

    def component(package: dict) -> dict:
        own = {
            "type": "library",
            "name": package["name"],
            "version": package["version"],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
        }
        if package["license"]:
            own["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        digest = digests.get((package["name"], package["version"]))
        if digest:
            own["hashes"] = [{"alg": "SHA-256", "content": digest}]
        return own

    parts = sorted((packages[one] for one in found if one != program["id"]), key=lambda one: (one["name"], one["version"]))
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(program), "type": "application", "name": "anabranch"}},
        "components": [component(part) for part in parts],
    }
    print(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
