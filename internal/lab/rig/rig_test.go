// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestOwnerNames(t *testing.T) {
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if !me.alive() {
		t.Error("this process counts as dead")
	}
	if (Owner{me.pid, me.startTicks + 1}).alive() {
		t.Error("a reused pid counts as alive")
	}
	if (Owner{1 << 30, 1}).alive() {
		t.Error("a pid that cannot exist counts as alive")
	}
	got, rest, ok := parseOwner(me.String() + "-server")
	if !ok || got != me || rest != "server" {
		t.Errorf("parseOwner: %v %q %v", got, rest, ok)
	}
	for _, bad := range []string{"", "x", "12", "0-5", "-3-5", "12-x", "a-1-server", "dev-12-3"} {
		if _, _, ok := parseOwner(bad); ok {
			t.Errorf("parseOwner(%q) succeeded", bad)
		}
	}
}

func TestNamesOfDeadTakesOnlyOurForm(t *testing.T) {
	dir := t.TempDir()
	me, _ := Self()
	dead := Owner{1 << 30, 1}
	for _, name := range []string{
		"tg-" + dead.String() + "-server", "tg-" + me.String() + "-server", "tg-" + dead.String() + ".json",
		"tg-lab-server", "tg-", "other", "cni-1073741824-1-server",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"tg-" + dead.String() + "-server", "tg-" + dead.String() + ".json"}
	if got := namesOfDead(dir, nsPrefix); !reflect.DeepEqual(got, want) {
		t.Errorf("namesOfDead = %q, want %q", got, want)
	}
}

func TestChoosePinning(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want Pinning
	}{
		{nil, Pinning{-1, -1, -1}}, {[]int{4}, Pinning{4, 4, 4}},
		{[]int{0, 1}, Pinning{0, 1, 1}}, {[]int{2, 5, 7, 8}, Pinning{2, 5, 7}},
	} {
		if got := choosePinning(c.cpus); got != c.want {
			t.Errorf("choosePinning(%v) = %v, want %v", c.cpus, got, c.want)
		}
	}
}

func TestLineWaiter(t *testing.T) {
	w := NewLineWaiter("ready")
	for _, part := range []string{"not re", "ady\nre", "ady"} {
		_, _ = w.Write([]byte(part))
		select {
		case <-w.Seen:
			t.Fatalf("seen too early, after %q", part)
		default:
		}
	}
	_, _ = w.Write([]byte("\nmore\n"))
	select {
	case <-w.Seen:
	default:
		t.Error("the line was not seen")
	}
}

func TestClientAddressesAreDistinctAndInside(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		seen := map[string]bool{}
		for _, a := range ClientSources(MaxClients, v6) {
			if seen[a.String()] || !(clients4.Contains(a) || clients6.Contains(a)) {
				t.Fatalf("client address %s", a)
			}
			seen[a.String()] = true
		}
	}
}
