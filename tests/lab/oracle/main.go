// The oracle answers questions about CDI with the real Go library, one JSON object a line.
//
// One binary is built for each version of the library (build.py); up to 0.6.0 the build replaces
// the module's path. A panic inside the library is an answer as well: {"panic": text}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

type request struct {
	Op          string            `json:"op"`
	Text        string            `json:"text"`
	Path        string            `json:"path"`
	Dirs        []string          `json:"dirs"`
	Devices     []string          `json:"devices"`
	Annotations map[string]string `json:"annotations"`
	Count       int               `json:"count"`
}

type answer map[string]any

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func respond(r request) (result answer) {
	result = answer{}
	defer func() {
		if problem := recover(); problem != nil {
			result = answer{"panic": fmt.Sprint(problem)}
		}
	}()
	switch r.Op {
	case "name":
		vendor, class, name, err := parseQualifiedName(r.Text)
		result["r"], result["err"] = []string{vendor, class, name}, text(err)
	case "annotations":
		keys, devices, err := cdi.ParseAnnotations(r.Annotations)
		result["keys"], result["devices"], result["err"] = keys, devices, text(err)
	case "annotation_key":
		key, err := cdi.AnnotationKey(r.Devices[0], r.Devices[1])
		result["key"], result["err"] = key, text(err)
	case "read":
		readSpec(r.Path, result)
	case "cache":
		cache(r, result)
	case "write":
		writeSpec(r, result)
	case "bench":
		bench(r, result)
	default:
		result["err"] = "no such question: " + r.Op
	}
	return result
}

func readSpec(path string, result answer) {
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		result["err"] = text(err)
		return
	}
	minimum, _ := cdi.MinimumRequiredVersion(spec.Spec)
	result["kind"], result["min"], result["spec"] = spec.Kind, minimum, spec.Spec
}

func load(r request) *cdi.Cache {
	cache, _ := cdi.NewCache(cdi.WithSpecDirs(r.Dirs...), cdi.WithAutoRefresh(false))
	return cache
}

func cache(r request, result answer) {
	cache := load(r)
	result["list"] = cache.ListDevices()
	result["vendors"] = cache.ListVendors()
	result["classes"] = cache.ListClasses()
	errors := map[string][]string{}
	for path, found := range cache.GetErrors() {
		for _, err := range found {
			errors[path] = append(errors[path], err.Error())
		}
		sort.Strings(errors[path])
	}
	result["errors"] = errors
	specs := map[string]any{}
	for _, name := range cache.ListDevices() {
		device := cache.GetDevice(name)
		spec := device.GetSpec()
		minimum, _ := cdi.MinimumRequiredVersion(spec.Spec)
		// As text at once: up to 1.1.1 an injection writes what it finds on the host into the cache.
		asRead, _ := json.Marshal(answer{
			"path": spec.GetPath(), "min": minimum, "device": device.Device, "spec": spec.Spec,
		})
		specs[name] = json.RawMessage(asRead)
	}
	result["defined"] = specs
	if len(r.Devices) > 0 {
		container := &oci.Spec{}
		unresolved, err := cache.InjectDevices(container, r.Devices...)
		result["unresolved"], result["injecterr"] = unresolved, text(err)
		if err == nil {
			if container.Process != nil {
				result["env"] = container.Process.Env
			}
			result["mounts"] = len(container.Mounts)
		}
	}
}

func writeSpec(r request, result answer) {
	spec, err := cdi.ReadSpec(r.Path, 0)
	if err != nil {
		result["err"] = text(err)
		return
	}
	spec.Version, _ = cdi.MinimumRequiredVersion(spec.Spec)
	directory, err := os.MkdirTemp("", "gpucdi-oracle-")
	if err != nil {
		result["err"] = text(err)
		return
	}
	defer os.RemoveAll(directory)
	r.Dirs = []string{directory}
	result["err"] = text(load(r).WriteSpec(spec.Spec, "written.yaml"))
	content, _ := os.ReadFile(filepath.Join(directory, "written.yaml"))
	result["content"] = string(content)
}

func bench(r request, result answer) {
	began := time.Now()
	for i := 0; i < r.Count; i++ {
		if _, err := load(r).InjectDevices(&oci.Spec{}, r.Devices...); err != nil &&
			strings.HasPrefix(err.Error(), "unresolvable") {
			result["err"] = text(err)
		}
	}
	result["ns"] = time.Since(began).Nanoseconds() / int64(r.Count)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var r request
		result := answer{}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			result["err"] = text(err)
		} else {
			result = respond(r)
		}
		line, _ := json.Marshal(result)
		out.Write(append(line, '\n'))
		out.Flush()
	}
}
