// SPDX-License-Identifier: Apache-2.0

// Package metrics scrapes every role with a real Prometheus: the metrics follow Prometheus' conventions,
// and alert rules and dashboard use only metrics that exist.
package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

const (
	patience   = time.Minute
	packaging  = "../../packaging"
	prometheus = "127.0.0.1:9090" // in the test's namespace
)

var tidegate string // the binary under test

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &tidegate)) }

// world is one namespace in which an instance of each role runs on veths of its own.
type world struct {
	t      *testing.T
	ns     *rig.Namespace
	owner  rig.Owner
	dir    string
	client http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	harness.NeedRoot(t)
	o, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := rig.NewNamespace("metrics")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	err = ns.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ns: ns, owner: o, dir: t.TempDir()}
	w.client = http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			err = ns.Do(func() error {
				c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
				return err
			})
			return c, err
		}}}
	w.file("secret", strings.Repeat("5a", 32)+"\n")
	w.file("bindings", "")
	return w
}

func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// run starts a program in the namespace, which ends with the test.
func (w *world) run(dir string, argv ...string) *harness.Output {
	w.t.Helper()
	out := &harness.Output{}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.ns.Do(cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	})
	return out
}

func (w *world) await(what string, out *harness.Output, reached func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("timed out waiting for: %s\n%s", what, out.String())
		}
	}
}

// get reads a page; empty if there is none.
func (w *world) get(at string) []byte {
	r, err := w.client.Get(at)
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

func (w *world) veth(name string) {
	w.t.Helper()
	a, _, err := rig.NewVeth(w.owner, w.ns, name, w.ns, name+"-peer")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := a.AwaitUp(); err != nil {
		w.t.Fatal(err)
	}
}

const services = "secret_file: secret\nservices:\n  - name: web\n    ports: [80]\n    mode: always\n"

// instance is a role with its configuration, except instance and metrics.
type instance struct {
	role, config string
	interfaces   []string
}

var instances = []instance{
	{"host", "interfaces: [tg-host]\n" + services, []string{"tg-host"}},
	{"server", "interfaces: [tg-server]\n" + services, []string{"tg-server"}},
	{"edge", "interfaces: [tg-eout, tg-ein]\ninside: [tg-ein]\n" + services, []string{"tg-eout", "tg-ein"}},
	{"proxy", "interfaces: [tg-pout, tg-pin]\nforwarding: bridge\n" + services, []string{"tg-pout", "tg-pin"}},
	{"patrol", "sources: [198.51.100.0/24]\nports:\n  - {interface: tg-cust, side: customers}\n  - {interface: tg-up, side: upstream}\n", []string{"tg-cust", "tg-up"}},
	{"border-manager", "identity_file: secret\nsecret_file: secret\nlisten: 127.0.0.1:4747\nbindings: bindings\n" +
		"patrols:\n  - {name: west, address: '127.0.0.1:4749', key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, prefixes: [198.51.100.0/24]}\n", nil},
	{"filter-manager", "listen: 127.0.0.1:4746\nbindings: bindings\nown: [203.0.113.0/24]\n", nil},
}

// startRoles starts all of them, and Prometheus, which scrapes them.
func (w *world) startRoles() (bodies map[string][]byte) {
	w.t.Helper()
	bodies = map[string][]byte{}
	running := map[string]*harness.Process{}
	var targets []string
	for i, in := range instances {
		for _, name := range in.interfaces {
			w.veth(name)
		}
		at := fmt.Sprintf("127.0.0.1:%d", 9500+i)
		targets = append(targets, at)
		conf := w.file(in.role+".yaml", fmt.Sprintf("role: %s\ninstance: %s%s-%s\nmetrics: %s\n%s", in.role, rig.InstPrefix, w.owner, in.role, at, in.config))
		p := (&harness.Instance{T: w.t, NS: w.ns, Binary: tidegate, Name: fmt.Sprintf("%s%s-%s", rig.InstPrefix, w.owner, in.role), Config: conf}).Launch()
		running[in.role] = p
		w.t.Cleanup(func() {
			_ = p.Cmd.Process.Signal(syscall.SIGINT) // takes everything down
			if <-p.Exited; p.Err != nil {
				w.t.Errorf("%s: %v\n%s", in.role, p.Err, p.Stderr.String())
			}
		})
	}
	rules, err := filepath.Abs(packaging + "/prometheus/tidegate.rules.yml")
	if err != nil {
		w.t.Fatal(err)
	}
	conf, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{rules},
		"scrape_configs": []any{map[string]any{"job_name": "tidegate", "static_configs": []any{map[string]any{"targets": targets}}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	prom := w.run(w.dir, "prometheus", "--config.file="+w.file("prometheus.yml", string(conf)), "--web.listen-address="+prometheus,
		"--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"), "--log.level=warn")
	for i, in := range instances {
		running[in.role].AwaitReady()
		w.await("metrics of "+in.role, &running[in.role].Stderr, func() bool {
			bodies[in.role] = w.get("http://" + targets[i] + "/metrics")
			return len(bodies[in.role]) > 0
		})
	}
	w.await("Prometheus has scraped each role twice", prom, func() bool {
		return len(w.query(`count_over_time(up{job="tidegate"}[1h]) >= 2 and up == 1`)) == len(instances)
	})
	return bodies
}

type sample struct {
	Metric map[string]string `json:"metric"`
}

// query asks Prometheus; an error of the expression ends the test.
func (w *world) query(expr string) []sample {
	w.t.Helper()
	r, err := w.client.Get("http://" + prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil // it is not there yet
	}
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return nil
	}
	if answer.Status != "success" {
		w.t.Fatalf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result
}

// asked returns the expressions of the rules and the dashboard.
func asked(t *testing.T) (exprs []string) {
	t.Helper()
	read := func(path string) []byte {
		text, err := os.ReadFile(filepath.Join(packaging, path))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(read("prometheus/tidegate.rules.yml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Type, Query string }
		}
	}
	if err := json.Unmarshal(read("grafana/tidegate.json"), &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "tidegate", "$instance", ".*", "$service", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			exprs = append(exprs, variables.Replace(target.Expr))
		}
	}
	for _, v := range board.Templating.List {
		if inner, ok := strings.CutPrefix(v.Query, "label_values("); ok {
			exprs = append(exprs, variables.Replace(inner[:strings.LastIndex(inner, ",")]))
		}
	}
	if len(exprs) < 30 {
		t.Fatalf("only %d expressions were found: the files must look different now", len(exprs))
	}
	return exprs
}

var metricName = regexp.MustCompile(`\b(tidegate|process|go)_[a-z0-9_]+\b`)

// missing are names in an expression that Prometheus has no series of.
func (w *world) missing(expr string) (names []string) {
	w.t.Helper()
	for _, name := range metricName.FindAllString(expr, -1) {
		if strings.HasSuffix(name, "_") { // of a regular expression
			continue
		}
		if len(w.query(`count({__name__="`+name+`"})`)) == 0 {
			names = append(names, name)
		}
	}
	return names
}

func TestRolesAreScraped(t *testing.T) {
	w := newWorld(t)
	bodies := w.startRoles()
	for role, body := range bodies {
		cmd := exec.Command("promtool", "check", "metrics")
		cmd.Stdin = bytes.NewReader(body)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
			t.Errorf("%s: promtool: %v\n%s", role, err, out)
		}
		if !bytes.Contains(body, fmt.Appendf(nil, `role=%q`, role)) {
			t.Errorf("%s does not say what it is", role)
		}
	}
	if collide := w.query(`count by (__name__) ({__name__=~".+",exported_instance!=""} or {__name__=~".+",exported_job!=""})`); len(collide) != 0 {
		t.Errorf("labels collide with those of the scrape: %v", collide)
	}
	for _, name := range []string{"process_start_time_seconds", "tidegate_build_info", "tidegate_instance_info"} {
		if n := len(w.query(`count by (instance) (` + name + `)`)); n != len(instances) {
			t.Errorf("%s: from %d of %d roles", name, n, len(instances))
		}
	}
	for _, expr := range asked(t) {
		w.query(expr)
		for _, name := range w.missing(expr) {
			t.Errorf("no role has %s, in %s", name, expr)
		}
	}
	if got := w.missing("rate(tidegate_never_there_total[1m])"); len(got) != 1 {
		t.Error("a metric that does not exist is not missed: this test proves nothing")
	}
	if rules := w.get("http://" + prometheus + "/api/v1/rules"); bytes.Contains(rules, []byte(`"health":"err"`)) || !bytes.Contains(rules, []byte("TidegateDown")) {
		t.Errorf("rules: %s", rules)
	}
}

// Each alert with values that raise it, and values that do not.
func TestAlerts(t *testing.T) {
	for _, argv := range [][]string{{"check", "rules", "tidegate.rules.yml"}, {"test", "rules", "tidegate.test.yml"}} {
		cmd := exec.Command("promtool", argv...)
		cmd.Dir = packaging + "/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", argv, err, out)
		}
	}
}
