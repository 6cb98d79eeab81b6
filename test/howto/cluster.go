// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// What a page calls kubectl: a cluster of one node, this machine. It keeps ConfigMaps and Secrets as directories, and runs the one container
// of a DaemonSet by podman with what the manifest says: image, arguments, capabilities, read-only root, mounts, readiness. A manifest with a field that is
// not listed below is refused. The kernel's seccomp filter of podman 4.3 needs CAP_SYS_ADMIN for bpf(2), so there is none.

const clusterDir = "/run/cluster"

// object is any of the manifests' objects; fields that a single node has no use for are `any`.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name, Namespace string
		Labels          any
	}
	AutomountServiceAccountToken any               `yaml:"automountServiceAccountToken"` // ServiceAccount
	Data                         map[string]string // ConfigMap
	Spec                         struct {          // DaemonSet
		Selector       any
		UpdateStrategy any `yaml:"updateStrategy"`
		Template       struct {
			Metadata any
			Spec     podSpec
		}
	}
}

type podSpec struct {
	ServiceAccountName            string `yaml:"serviceAccountName"`
	AutomountServiceAccountToken  any    `yaml:"automountServiceAccountToken"`
	HostNetwork                   bool   `yaml:"hostNetwork"`
	DNSPolicy                     any    `yaml:"dnsPolicy"`
	PriorityClassName             any    `yaml:"priorityClassName"`
	TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
	NodeSelector                  any    `yaml:"nodeSelector"`
	Tolerations                   any
	Containers                    []container
	Volumes                       []volume
}

type volume struct {
	Name      string
	ConfigMap struct{ Name string } `yaml:"configMap"`
	Secret    struct {
		SecretName  string `yaml:"secretName"`
		DefaultMode any    `yaml:"defaultMode"`
	}
	HostPath struct{ Path, Type string } `yaml:"hostPath"`
}

type container struct {
	Name, Image     string
	ImagePullPolicy any `yaml:"imagePullPolicy"`
	Args            []string
	SecurityContext struct {
		RunAsUser                int `yaml:"runAsUser"`
		Privileged               bool
		AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop, Add []string }
		SeccompProfile           any `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	ReadinessProbe struct {
		Exec             struct{ Command []string }
		PeriodSeconds    any `yaml:"periodSeconds"`
		TimeoutSeconds   any `yaml:"timeoutSeconds"`
		FailureThreshold any `yaml:"failureThreshold"`
	} `yaml:"readinessProbe"`
	Resources    any
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

func kubectl(args []string) error {
	var namespace, file string
	var command []string
	var words []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--namespace" && i+1 < len(args):
			i++
			namespace = args[i]
		case args[i] == "-f" && i+1 < len(args):
			i++
			file = args[i]
		case args[i] == "--":
			command, i = args[i+1:], len(args)
		default:
			words = append(words, args[i])
		}
	}
	if namespace != "kube-system" && file == "" {
		return fmt.Errorf("namespace %q: everything here is in kube-system", namespace)
	}
	switch what := strings.Join(words, " "); {
	case strings.HasPrefix(what, "create secret generic ") && len(words) == 5:
		from, ok := strings.CutPrefix(words[4], "--from-file=")
		text, err := os.ReadFile(from)
		if err != nil || !ok {
			return fmt.Errorf("%s: %w", words[4], err)
		}
		return keep("Secret", words[3], map[string]string{filepath.Base(from): string(text)})
	case what == "apply" && file != "":
		return each(file, apply)
	case what == "delete" && file != "":
		return each(file, remove)
	case what == "rollout restart daemonset/tidegate":
		return start()
	case what == "rollout status daemonset/tidegate":
		return awaitReady()
	case what == "exec daemonset/tidegate" && len(command) > 0:
		return podman(append([]string{"exec", "tidegate"}, command...)...)
	case what == "logs daemonset/tidegate --follow":
		return podman("logs", "--follow", "tidegate")
	}
	return fmt.Errorf("this stand-in does not know %q", args)
}

func podman(args ...string) error {
	cmd := exec.Command("podman", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// keep stores the data of a ConfigMap or Secret as files.
func keep(kind, name string, data map[string]string) error {
	dir := filepath.Join(clusterDir, kind, name)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	for key, text := range data {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(text), 0o400); err != nil {
			return err
		}
	}
	return nil
}

// each decodes a file of manifests strictly.
func each(file string, do func(object) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for dec := yaml.NewDecoder(f, yaml.Strict()); ; {
		var o object
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := do(o); err != nil {
			return fmt.Errorf("%s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
}

func apply(o object) error {
	switch o.Kind {
	case "ServiceAccount":
		return keep(o.Kind, o.Metadata.Name, nil)
	case "ConfigMap":
		return keep(o.Kind, o.Metadata.Name, o.Data)
	case "DaemonSet":
		text, err := yaml.Marshal(o.Spec.Template.Spec)
		if err != nil {
			return err
		}
		if err := keep(o.Kind, o.Metadata.Name, map[string]string{"pod": string(text)}); err != nil {
			return err
		}
		return start()
	}
	return errors.New("unknown kind")
}

func remove(o object) error {
	err := os.RemoveAll(filepath.Join(clusterDir, o.Kind, o.Metadata.Name))
	if o.Kind == "DaemonSet" {
		err = errors.Join(err, podman("rm", "--force", "--ignore", "tidegate"))
	}
	return err
}

func pod() (p podSpec, err error) {
	text, err := os.ReadFile(filepath.Join(clusterDir, "DaemonSet/tidegate/pod"))
	if err == nil {
		err = yaml.Unmarshal(text, &p)
	}
	if err == nil && len(p.Containers) != 1 {
		err = fmt.Errorf("%d containers", len(p.Containers))
	}
	return p, err
}

// start replaces the pod.
func start() error {
	p, err := pod()
	if err != nil {
		return err
	}
	if err := podman("rm", "--force", "--ignore", "--time", fmt.Sprint(p.TerminationGracePeriodSeconds), "tidegate"); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(clusterDir, "ServiceAccount", p.ServiceAccountName)); err != nil {
		return err
	}
	c, sec := p.Containers[0], p.Containers[0].SecurityContext
	args := []string{"run", "--detach", "--name", "tidegate", "--pull", "never", "--user", fmt.Sprint(sec.RunAsUser), "--security-opt", "seccomp=unconfined"}
	if p.HostNetwork {
		args = append(args, "--network", "host")
	}
	if sec.Privileged {
		args = append(args, "--privileged")
	}
	if !sec.AllowPrivilegeEscalation {
		args = append(args, "--security-opt", "no-new-privileges")
	}
	if sec.ReadOnlyRootFilesystem {
		args = append(args, "--read-only", "--read-only-tmpfs=false")
	}
	for _, capability := range sec.Capabilities.Drop {
		args = append(args, "--cap-drop", capability)
	}
	for _, capability := range sec.Capabilities.Add {
		args = append(args, "--cap-add", capability)
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			return fmt.Errorf("no volume %s", m.Name)
		}
		v := p.Volumes[i]
		from := v.HostPath.Path
		switch {
		case v.ConfigMap.Name != "":
			from = filepath.Join(clusterDir, "ConfigMap", v.ConfigMap.Name)
		case v.Secret.SecretName != "":
			from = filepath.Join(clusterDir, "Secret", v.Secret.SecretName)
		case v.HostPath.Type == "DirectoryOrCreate":
			err = os.MkdirAll(from, 0o755)
		}
		if _, missing := os.Stat(from); err != nil || missing != nil {
			return errors.Join(err, missing)
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		args = append(args, "--volume", from+":"+m.MountPath+":"+mode)
	}
	return podman(append(append(args, c.Image), c.Args...)...)
}

// awaitReady runs the readiness probe until it succeeds.
func awaitReady() error {
	p, err := pod()
	if err != nil {
		return err
	}
	probe := append([]string{"exec", "tidegate"}, p.Containers[0].ReadinessProbe.Exec.Command...)
	for begin := time.Now(); ; time.Sleep(250 * time.Millisecond) { // a probe is polled, in a cluster as well; each starts podman
		out, err := exec.Command("podman", probe...).CombinedOutput()
		if err == nil {
			fmt.Println(`daemon set "tidegate" successfully rolled out`)
			return nil
		}
		if time.Since(begin) > limit/2 {
			log, _ := exec.Command("podman", "logs", "tidegate").CombinedOutput()
			return fmt.Errorf("not ready: %w: %s\nlog of the container:\n%s", err, out, log)
		}
	}
}
