package main

import "tags.cncf.io/container-device-interface/pkg/parser"

var parseQualifiedName = parser.ParseQualifiedName
