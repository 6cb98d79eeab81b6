// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/p4"
)

// learningSwitch is a switch with three cables, 1 and 3 outside, 2 inside, that learns addresses.
type learningSwitch struct {
	*bench
	t          *testing.T
	controller *p4.Controller
	wires      [4]*wire // by port
}

// station is an address with its port and frames.
type station [6]byte

func stationOf(n uint32) (s station) {
	s[0] = 2
	binary.BigEndian.PutUint32(s[2:], n)
	return s
}

var fixedStation = stationOf(0xfffffff0) // of the configuration, inside

func newLearningSwitch(t *testing.T, program, source string, limit int, age time.Duration) *learningSwitch {
	t.Helper()
	s := &learningSwitch{bench: newBench(t, source, "out1"), t: t}
	s.wires = [4]*wire{1: s.outside, 2: s.inside, 3: s.more[0]}
	learn := p4.Duration(0)
	cfg := &p4.Config{Program: program, Whitelist: "table", Thrift: thriftAddr, Notifications: s.notifications,
		Epoch: p4.Duration(8 * time.Second), KeyHorizon: p4.Duration(time.Minute), OnStaleKeys: "drop", Learn: &learn,
		MACLimit: &limit, MACAge: p4.Duration(age), Inside: []string{"sw2"},
		MACs:     map[string]string{net.HardwareAddr(fixedStation[:]).String(): "sw2"},
		Services: []p4.Service{{Name: "web", Ports: []uint16{80}}}}
	cfg.Complete()
	secret := keys.Secret{7}
	var err error
	if s.controller, err = p4.NewController(context.Background(), cfg, &secret, p4.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.controller.Close() })
	return s
}

// frame is a frame of an experiment's ethertype between stations.
func (from station) frame(to station, text string) []byte {
	return slices.Concat(to[:], from[:], []byte{0x88, 0xb6}, []byte(text))
}

// ports sends a frame into a port and returns the ports at which it came out.
func (s *learningSwitch) ports(port int, frame []byte) (out []int) {
	s.t.Helper()
	marker := s.nextMarker()
	for _, f := range [][]byte{frame, marker} {
		if err := s.wires[port].send(f); err != nil {
			s.t.Fatal(err)
		}
	}
	for other := 1; other <= 3; other++ {
		if other == port {
			continue
		}
		frames, err := until(s.wires[other], marker)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range frames {
			if f[12] == 0x88 && f[13] == 0xb5 { // an older marker
				continue
			}
			if !bytes.Equal(f[:12], frame[:12]) {
				s.t.Errorf("%x came out of port %d", f, other)
			}
			out = append(out, other)
		}
	}
	return out
}

func (s *learningSwitch) want(what string, port int, from, to station, ports ...int) {
	s.t.Helper()
	for name, frame := range map[string][]byte{
		"a frame": from.frame(to, what),
		"IPv4":    addressed(frameOf(attackEnds["ipv4"][0], attackEnds["ipv4"][1], 1000, 9, 1, 1, 0x10), from, to),
		"IPv6":    addressed(frameOf(attackEnds["ipv6"][0], attackEnds["ipv6"][1], 1000, 9, 1, 1, 0x10), from, to),
	} {
		if out := s.ports(port, frame); !slices.Equal(out, ports) {
			s.t.Errorf("%s: %s came out of ports %v, want %v", what, name, out, ports)
		}
	}
}

// addressed sets a frame's MAC addresses.
func addressed(frame []byte, from, to station) []byte {
	return slices.Concat(to[:], from[:], frame[12:])
}

// await runs the controller until its figures are as given.
func (s *learningSwitch) await(what string, reached func(p4.MACFigures) bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !reached(s.controller.MACs()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: timed out waiting for: %+v", what, s.controller.MACs())
		}
		if err := s.controller.Tick(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestMACLearning: frames to a known address leave by its port only; an address
// that moves is learned again; nothing outside can take over an address of the inside, or of the
// configuration.
func TestMACLearning(t *testing.T) {
	for program, source := range map[string]string{p4.ProgramEdge: edgeProgram, p4.ProgramAuthFull: authProgram, p4.ProgramCookie: cookieProgram} {
		t.Run(program, func(t *testing.T) {
			s := newLearningSwitch(t, program, source, 100, time.Minute)
			client, server, other := stationOf(1), stationOf(2), stationOf(3)
			if out := s.ports(1, client.frame(server, "first")); !slices.Equal(out, []int{2, 3}) {
				t.Errorf("to an address that nobody knows: out of %v, want 2 and 3", out)
			}
			s.await("the client", func(f p4.MACFigures) bool { return f.Learned == 1 && f.Outside == 1 })
			s.want("to the client", 2, server, client, 1)
			s.await("the server", func(f p4.MACFigures) bool { return f.Learned == 2 && f.Inside == 1 })
			s.want("to the server", 1, client, server, 2)
			s.want("to the server from the other port", 3, other, server, 2)
			s.await("the other", func(f p4.MACFigures) bool { return f.Learned == 3 && f.Outside == 2 })
			s.want("to the configured one", 1, client, fixedStation, 2)
			s.want("between two at one port", 1, stationOf(4), client)

			s.want("moved", 3, client, server, 2)
			s.await("the client at its new port", func(f p4.MACFigures) bool { return f.Moved >= 1 })
			s.want("to the client that moved", 2, server, client, 3)

			s.want("the server's address outside", 1, server, other, 3)
			s.await("refused", func(f p4.MACFigures) bool { return f.Refused >= 1 })
			s.want("the configured address outside", 1, fixedStation, other, 3)
			before := s.controller.MACs().Refused
			s.await("refused, too", func(f p4.MACFigures) bool { return f.Refused > 1 || before > 1 })
			s.want("to the server, still", 3, other, server, 2)
			s.want("to the configured one, still", 3, other, fixedStation, 2)
		})
	}
}

// TestMACFlood: forged addresses displace only newcomers of their own side; frames
// that a switch answers or drops teach it nothing; and addresses age.
func TestMACFlood(t *testing.T) {
	const limit = 50
	s := newLearningSwitch(t, p4.ProgramEdge, edgeProgram, limit, 3*time.Second)
	client, server, late := stationOf(1), stationOf(2), stationOf(3)
	s.ports(1, client.frame(server, "first"))
	s.ports(2, server.frame(client, "first"))
	s.await("both", func(f p4.MACFigures) bool { return f.Inside == 1 && f.Outside == 1 })

	// SYNs and ACKs with forged addresses: answered, or dropped.
	flood := func(n int, frame func(i int) []byte) {
		for at := 0; at < n; at += portion {
			var frames [][]byte
			for i := at; i < min(at+portion, n); i++ {
				frames = append(frames, frame(i))
			}
			if _, _, err := s.through(s.outside, s.inside, frames...); err != nil {
				t.Fatal(err)
			}
		}
	}
	ends := attackEnds["ipv4"]
	for _, flags := range []byte{2, 0x10} {
		flood(320, func(i int) []byte {
			return addressed(frameOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i%200)}), ends[1], uint16(2000+i), 80, 1, 1, flags), stationOf(uint32(1e6+i)), server)
		})
	}
	if f := s.controller.MACs(); f.Learned != 2 || f.Full != 0 {
		t.Errorf("frames that went nowhere taught %+v", f)
	}

	// Frames that are forwarded.
	flood(3200, func(i int) []byte { return stationOf(uint32(2e6+i)).frame(server, "forged") })
	s.await("the table is full", func(f p4.MACFigures) bool { return f.Outside == limit && f.Full > 0 })
	f := s.controller.MACs()
	t.Logf("3200 forged addresses: %+v", f)
	if f.Inside != 1 {
		t.Errorf("inside %d addresses are known, want the server's", f.Inside)
	}
	s.want("to the client under the flood", 2, server, client, 1)
	s.want("to the server under the flood", 1, client, server, 2)
	s.ports(2, late.frame(client, "a newcomer inside"))
	s.await("a newcomer inside", func(f p4.MACFigures) bool { return f.Inside == 2 })
	s.want("to the newcomer", 1, client, late, 2)

	// Addresses in use stay, the others expire.
	s.await("the forged ones age", func(f p4.MACFigures) bool {
		s.ports(1, client.frame(server, "alive"))
		s.ports(2, server.frame(client, "alive"))
		return f.Outside == 1 && f.Inside == 1 && f.Aged >= limit
	})
	s.want("to the client afterwards", 2, server, client, 1)
	if out := s.ports(1, client.frame(late, "forgotten")); !slices.Equal(out, []int{2, 3}) {
		t.Errorf("to one that has aged: out of %v", out)
	}
}
