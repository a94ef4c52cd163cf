package main

import "tags.cncf.io/container-device-interface/pkg/cdi"

var parseQualifiedName = cdi.ParseQualifiedName
