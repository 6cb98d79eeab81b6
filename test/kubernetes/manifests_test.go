// SPDX-License-Identifier: Apache-2.0

// Package kubernetes decodes the chart and the plain manifests strictly with the types of Kubernetes, and compares them with what the program needs.
package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"tidegate/internal/config"
)

const (
	chartDir = "../../packaging/helm/tidegate"
	plain    = "../../packaging/kubernetes/tidegate.yaml"
	header   = "# SPDX-License-Identifier: Apache-2.0\n# What `helm template tidegate packaging/helm/tidegate --namespace kube-system` makes; TIDEGATE_WRITE=1 go test, in test/kubernetes, writes it.\n"
)

// render is `helm template`.
func render(t *testing.T, values map[string]any) string {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "tidegate", Namespace: "kube-system", IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := (engine.Engine{Strict: true}).Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, text := range out {
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, "---\n")
}

// objects is a set of manifests, decoded strictly.
type objects struct {
	account corev1.ServiceAccount
	config  corev1.ConfigMap
	set     appsv1.DaemonSet
}

func decode(text string) (o objects, err error) {
	seen := map[string]bool{}
	for _, doc := range strings.Split(text, "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			return o, err
		}
		into := map[string]any{"v1 ServiceAccount": &o.account, "v1 ConfigMap": &o.config, "apps/v1 DaemonSet": &o.set}[kind.APIVersion+" "+kind.Kind]
		if into == nil || seen[kind.Kind] {
			return o, fmt.Errorf("%s %q: another than expected, or there twice", kind.APIVersion, kind.Kind)
		}
		seen[kind.Kind] = true
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			return o, fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
	if len(seen) != 3 {
		return o, fmt.Errorf("only %v", seen)
	}
	return o, nil
}

// check compares the objects with each other and with the program.
func (o *objects) check(t *testing.T, instance string) {
	t.Helper()
	pod := o.set.Spec.Template
	for k, v := range o.set.Spec.Selector.MatchLabels {
		if pod.Labels[k] != v {
			t.Errorf("the pod's label %s is %q, the selector's %q", k, pod.Labels[k], v)
		}
	}
	if !pod.Spec.HostNetwork || pod.Spec.HostPID || len(pod.Spec.Containers) != 1 || pod.Spec.ServiceAccountName != o.account.Name {
		t.Errorf("%+v", pod.Spec)
	}
	c := pod.Spec.Containers[0]
	sec := c.SecurityContext
	if *sec.Privileged || *sec.AllowPrivilegeEscalation || !*sec.ReadOnlyRootFilesystem || !slices.Equal(sec.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		!slices.Equal(sec.Capabilities.Add, []corev1.Capability{"BPF", "PERFMON", "NET_ADMIN"}) {
		t.Errorf("security: %+v", sec)
	}
	if want := []string{"/tidegate", "status", "--ready", "--instance", instance}; !slices.Equal(c.ReadinessProbe.Exec.Command, want) {
		t.Errorf("readiness: %q, want %q", c.ReadinessProbe.Exec.Command, want)
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v
	}
	at := map[string]corev1.Volume{}
	for _, m := range c.VolumeMounts {
		v, known := volumes[m.Name]
		if !known {
			t.Errorf("mount %s has no volume", m.Name)
		}
		at[m.MountPath] = v
		delete(volumes, m.Name)
	}
	if len(volumes) != 0 {
		t.Errorf("volumes that nobody mounts: %v", volumes)
	}
	for _, path := range []string{"/run/tidegate", "/sys/fs/bpf", "/sys/fs/cgroup"} { // where the program looks
		if at[path].HostPath == nil || at[path].HostPath.Path != path {
			t.Errorf("%s is %+v", path, at[path])
		}
	}
	cfg, err := config.Parse("tidegate.yaml", []byte(o.config.Data["tidegate.yaml"]))
	if err != nil {
		t.Fatalf("the configuration: %v\n%s", err, o.config.Data["tidegate.yaml"])
	}
	secret := at[filepath.Dir(cfg.SecretFile)].Secret
	if cfg.Instance != instance || secret == nil || secret.DefaultMode == nil || *secret.DefaultMode&0o077 != 0 {
		t.Errorf("instance %q, secret file %s in %+v", cfg.Instance, cfg.SecretFile, secret)
	}
	if i := slices.Index(c.Args, "-c"); i < 0 || at[filepath.Dir(c.Args[i+1])].ConfigMap == nil || o.config.Data[filepath.Base(c.Args[i+1])] == "" {
		t.Errorf("arguments %q name no file of the ConfigMap", c.Args)
	}
}

func TestChart(t *testing.T) {
	text := render(t, nil)
	o, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	o.check(t, "node")
	other, err := decode(render(t, map[string]any{"image": map[string]any{"repository": "registry.example/tidegate", "tag": "9"}, "seccompProfile": "Unconfined",
		"config": map[string]any{"instance": "other", "interfaces": []any{"bond0", "bond1"}}}))
	if err != nil {
		t.Fatal(err)
	}
	other.check(t, "other")
	if got := other.set.Spec.Template.Spec.Containers[0]; got.Image != "registry.example/tidegate:9" || got.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeUnconfined {
		t.Errorf("image %s, %+v", got.Image, got.SecurityContext.SeccompProfile)
	}
	if a, b := o.set.Spec.Template.Annotations, other.set.Spec.Template.Annotations; a["tidegate/config"] == b["tidegate/config"] {
		t.Error("another configuration does not restart the pods")
	}
	if os.Getenv("TIDEGATE_WRITE") != "" {
		if err := os.WriteFile(plain, []byte(header+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := decode(strings.Replace(text, "hostNetwork:", "hostNetwrok:", 1)); err == nil {
		t.Error("a field that does not exist is decoded: this test proves nothing")
	}
}

// The plain manifests are the chart's output.
func TestPlainManifests(t *testing.T) {
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != header+render(t, nil) {
		t.Errorf("%s is not what the chart makes: TIDEGATE_WRITE=1 go test, in test/kubernetes, writes it", plain)
	}
	o, err := decode(string(text))
	if err != nil {
		t.Fatal(err)
	}
	o.check(t, "node")
}

// The how-to's `helm install` makes the configuration that its reader wants.
func TestHowToValues(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, ok := strings.Cut(string(page), "\nhelm install ")
	command, _, ends := strings.Cut(command, "```")
	values := map[string]any{}
	words := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	for i, w := range words {
		if w == "--set" && i+1 < len(words) {
			if err := strvals.ParseInto(strings.Trim(words[i+1], "'"), values); err != nil {
				t.Fatalf("%s: %v", words[i+1], err)
			}
		}
	}
	if !ok || !ends || len(values) == 0 {
		t.Fatalf("the page has no `helm install` with values: %q", command)
	}
	o, err := decode(render(t, values))
	if err != nil {
		t.Fatal(err)
	}
	o.check(t, "node")
	cfg, err := config.Parse("tidegate.yaml", []byte(o.config.Data["tidegate.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Services) != 1 || cfg.Services[0].Name != "nodeports" || fmt.Sprint(cfg.Services[0].Ports) != "[30080]" || cfg.Services[0].Mode != config.ModeMonitor {
		t.Errorf("%+v", cfg.Services)
	}
}
