// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/test/world"
)

func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if standIn := standIns[name]; standIn != nil {
		if err := standIn(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Every page that names a network works as written.
func TestPages(t *testing.T) {
	world.NeedRoot(t)
	paths, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	bin := binaries(t)
	for i, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if len(p.networks) == 0 {
				t.Fatal("the page names no network in its front matter, so that nothing of it is run")
			}
			for j, name := range p.networks {
				w, ok := networks[name]
				if !ok {
					t.Fatalf("network %q: want one of those in network.go", name)
				}
				t.Run(name, func(t *testing.T) {
					prepareFor(t, name)
					t.Parallel()
					follow(t, p, w.build(t, fmt.Sprintf("h%d%d-", i, j), bin))
				})
			}
		})
	}
}

// prepareFor gets what a network's machines cannot get themselves.
func prepareFor(t *testing.T, network string) {
	t.Helper()
	switch network {
	case "workshop":
		if out, err := exec.Command("make", "-s", "-C", "../../lwip", "../build/lwip/lwip-bookworm/src/core/tcp_in.c").CombinedOutput(); err != nil {
			t.Fatalf("lwIP's source: %v\n%s", err, out)
		}
	case "docker": // not installed for tests: its package starts a daemon that changes the machine's firewall
		if _, err := exec.LookPath("dockerd"); err != nil {
			t.Skip("this machine has no dockerd; `tools/deps.sh machines` installs it. The page is followed with podman")
		}
	}
}

// follow executes a page.
func follow(t *testing.T, p page, machines map[string]*machine) {
	t.Helper()
	var printed string
	ran := 0
	for _, f := range p.fences {
		m := machines[f.words["on"]]
		if f.words["on"] != "" && m == nil {
			t.Fatalf("line %d: no machine named %q in this network", f.line, f.words["on"])
		}
		switch {
		case f.lang == "sh" && m != nil:
			patience, err := f.patience()
			if err != nil {
				t.Fatal(err)
			}
			out, err := m.runWithin(patience, f.text)
			if err != nil {
				t.Fatalf("line %d, on %s: %v\n%s\nprinted:\n%s%s", f.line, m.name, err, f.text, out, logs(machines))
			}
			printed = out
			ran++
		case f.words["file"] != "" && m != nil:
			if err := m.write(f.words["file"], f.text); err != nil {
				t.Fatalf("line %d: %v", f.line, err)
			}
		case f.words["expect"] != "":
			if line := missing(printed, f.text); line != "" {
				t.Fatalf("line %d: expected %q, but the commands before printed:\n%s", f.line, line, printed)
			}
		}
	}
	if ran == 0 {
		t.Fatal("the page names a network and runs nothing")
	}
}

// logs returns the machines' logs after a failure: those of their units and the state of their instances.
func logs(machines map[string]*machine) string {
	var all strings.Builder
	for name, m := range machines {
		out, err := m.run("cd " + unitRun + " 2>/dev/null || exit 0; cat *.log; for i in *@*.log; do n=${i#*@}; tidegate status --instance ${n%.log}; done; ip neigh")
		if out != "" || err != nil {
			fmt.Fprintf(&all, "\n%s: %v\n%s", name, err, out)
		}
	}
	return all.String()
}

func TestParse(t *testing.T) {
	p, err := parse("---\nnetwork: router farm\n---\n# A\n```sh on=server\na b\n```\n```text expect\nx\n```\n```yaml file=/etc/a.yaml on=server\nk: v\n```\n")
	if err != nil || !slices.Equal(p.networks, []string{"router", "farm"}) || len(p.fences) != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	if f := p.fences[0]; f.lang != "sh" || f.words["on"] != "server" || f.text != "a b\n" || f.line != 5 {
		t.Errorf("%+v", f)
	}
	if f := p.fences[2]; f.words["file"] != "/etc/a.yaml" || p.fences[1].words["expect"] == "" {
		t.Errorf("%+v", p.fences)
	}
	for words, want := range map[string]time.Duration{"": limit, " patience=5m": 5 * time.Minute, " patience=1s": 0, " patience=long": 0} {
		p, err := parse("```sh on=server" + words + "\na\n```\n")
		if err != nil {
			t.Fatal(err)
		}
		if d, err := p.fences[0].patience(); d != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %v", words, d, err, want)
		}
	}
	if _, err := parse("```sh\nx\n"); err == nil {
		t.Error("a fence without an end was taken")
	}
}

func TestMissing(t *testing.T) {
	got := "one  two three\nfour\nfive 5\n"
	for want, is := range map[string]string{"one two\nfive …\n": "", "four\none\n": "one", "one … three": "", "six": "six", "…": ""} {
		if line := missing(got, want); line != is {
			t.Errorf("%q: %q, want %q", want, line, is)
		}
	}
}
