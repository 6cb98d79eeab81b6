// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/p4"
	"tidegate/internal/vectors"
)

const (
	edgeProgram = "../../p4/v1model/edge.p4"
	edgeVectors = "../../vectors/edge"

	vectorEpoch = 2 * time.Second        // epoch 2^32 + 5 must be a time that Go can represent
	vectorFresh = 700 * time.Millisecond // then the controller is started over: no vector outlives its epoch
)

const (
	noSums = "P4 looks neither at checksums nor at IPv4 options: servers and their kernels do"
)

// unsupported are the vectors that this plane does not pass, and why.
var unsupported = map[string]string{
	"syns/v4-bad-ip-checksum":            noSums,
	"syns/v4-source-route-loose":         noSums,
	"syns/v4-source-route-strict":        noSums,
	"syns/v4-source-route-behind-others": noSums,
	"syns/v4-option-length-0":            noSums,
	"syns/v4-option-length-1":            noSums,
	"syns/v4-option-beyond":              noSums,
	"syns/v4-option-cut":                 noSums,
	"verified/bad-checksum-v4":           noSums,
	"verified/bad-checksum-v6":           noSums,
	"syns/cut-v4-qinq":                   "Linux drops frames that end inside a VLAN tag (skb_vlan_untag) before a packet socket, and so simple_switch, sees them",
}

// switchGate is the edge on simple_switch, as a vectors.Gate.
type switchGate struct {
	*bench
	controller *p4.Controller
	installed  *vectors.Vector // the controller's configuration
	begun      time.Time
}

func (g *switchGate) close() {
	if g.controller != nil {
		_ = g.controller.Close()
	}
}

func sameSettings(a, b *vectors.Vector) bool {
	return *a.Epoch == *b.Epoch && a.Secret == b.Secret && a.StaleKeys == b.StaleKeys && a.Hops == b.Hops &&
		slices.Equal(a.Keys, b.Keys) && reflect.DeepEqual(a.Services, b.Services)
}

func (g *switchGate) Prepare(v *vectors.Vector) error {
	if g.installed != nil && sameSettings(g.installed, v) && time.Since(g.begun) < vectorFresh {
		return g.controller.Reset()
	}
	g.close()
	g.installed, g.begun = v, time.Now()
	secret, learn := keys.Secret(v.Secret), p4.Duration(0)
	cfg := &p4.Config{Program: p4.ProgramEdge, Thrift: thriftAddr, Epoch: p4.Duration(vectorEpoch),
		KeyHorizon: p4.Duration(time.Second), OnStaleKeys: config.StaleKeys(v.StaleKeys),
		Window: p4.Duration(time.Hour), Learn: &learn, Hops: v.Hops, Inside: []string{"sw2"}}
	for _, s := range v.Services {
		cfg.Services = append(cfg.Services, p4.Service{ID: uint8(s.ID), Name: fmt.Sprint(s.ID), Prefixes: s.Prefixes,
			Ports: []uint16{s.Port}, Mode: config.Mode(s.Mode), MSSv4: s.MSSv4, MSSv6: s.MSSv6, Window: s.Window,
			WScale: &s.WScale})
	}
	cfg.Complete()
	// The clock starts at the beginning of the vector's epoch.
	clock := keys.EpochStart(*v.Epoch, vectorEpoch).Sub(g.begun)
	var err error
	g.controller, err = p4.NewController(context.Background(), cfg, &secret, p4.Options{
		Now: func() time.Time { return time.Now().Add(clock) }})
	if err != nil {
		return err
	}
	if !slices.Contains(v.Keys, *v.Epoch) {
		if err := g.controller.ForgetKeys(); err != nil {
			return err
		}
	}
	return g.controller.Reset()
}

func (g *switchGate) Packet(in []byte) (vectors.Result, error) {
	forward, back, err := g.through(g.outside, g.inside, in)
	switch {
	case err != nil:
		return vectors.Result{}, err
	case len(forward)+len(back) > 1:
		return vectors.Result{}, fmt.Errorf("%d frames went on and %d came back", len(forward), len(back))
	case len(forward) == 1:
		return vectors.Result{Verdict: vectors.Pass, Out: forward[0]}, nil
	case len(back) == 1:
		return vectors.Result{Verdict: vectors.TX, Out: back[0]}, nil
	}
	return vectors.Result{Verdict: vectors.Drop}, nil
}

func (g *switchGate) Counters() (vectors.Counters, error) {
	counts, err := g.controller.Counters()
	if err != nil {
		return nil, err
	}
	out := vectors.Counters{}
	for name, c := range counts {
		var id uint32
		if name != "" {
			if _, err := fmt.Sscan(name, &id); err != nil {
				return nil, err
			}
		}
		out[id] = c
	}
	return out, nil
}

// TestVectors replays every vector of the edge through simple_switch, byte for byte.
func TestVectors(t *testing.T) {
	g := &switchGate{bench: newBench(t, edgeProgram)}
	defer g.close()
	all, err := vectors.LoadDir(edgeVectors)
	if err != nil {
		t.Fatal(err)
	}
	// Vectors with the same settings one after another: a controller's start is slow.
	slices.SortStableFunc(all, func(a, b vectors.Vector) int {
		return strings.Compare(settingsKey(&a), settingsKey(&b))
	})
	only := os.Getenv("TIDEGATE_VECTOR")
	passed, skipped := 0, map[string]bool{}
	for i := range all {
		v := &all[i]
		if only != "" && v.String() != only {
			continue
		}
		why, excused := unsupported[v.String()]
		if n := withoutStubs(v); n != 0 {
			t.Logf("%s: %d packets left out: no packet socket sends less than an Ethernet header", v, n)
		}
		differences, err := vectors.Replay(g, v)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", v, err)
		case excused && len(differences) == 0:
			t.Errorf("%s is listed as unsupported (%s), but passes", v, why)
		case excused:
			skipped[v.String()] = true
		case len(differences) != 0:
			t.Errorf("%s (%s):\n%s", v, v.Why, strings.Join(differences, "\n"))
		default:
			passed++
		}
	}
	t.Logf("%d vectors of %d, %d unsupported", passed, len(all), len(skipped))
	if only == "" && len(skipped) != len(unsupported) {
		t.Errorf("%d vectors are listed as unsupported, %d were found", len(unsupported), len(skipped))
	}
}

// withoutStubs removes the packets from a vector that cannot be sent here.
func withoutStubs(v *vectors.Vector) int {
	before := len(v.Packets)
	v.Packets = slices.DeleteFunc(slices.Clone(v.Packets), func(p vectors.Packet) bool { return len(p.In) < 14 })
	return before - len(v.Packets)
}

func settingsKey(v *vectors.Vector) string {
	return fmt.Sprintf("%v %v %v %v %+v", *v.Epoch, v.Keys, v.StaleKeys, v.Hops, v.Services)
}

// TestVectorsCanFail runs wrong vectors through the same runner.
func TestVectorsCanFail(t *testing.T) {
	g := &switchGate{bench: newBench(t, edgeProgram)}
	defer g.close()
	all, err := vectors.Load(filepath.Join(edgeVectors, "verified.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := all[0]
	wrong.Packets = slices.Clone(wrong.Packets)
	wrong.Packets[0].Verdict = vectors.Drop
	if d, err := vectors.Replay(g, &wrong); err != nil || len(d) != 1 {
		t.Errorf("a wrong verdict: %q %v, want one difference", d, err)
	}
	wrong = all[0]
	wrong.Counters = vectors.Counters{1: {"syn": 1}}
	if d, err := vectors.Replay(g, &wrong); err != nil || len(d) != 1 {
		t.Errorf("wrong counters: %q %v, want one difference", d, err)
	}
}
