// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/test/world"
)

// The packet path looks for a tuple only where presence bits say that it may be: in history by the bits of the generation before, among
// ended flows by those of either. A flow is found wherever swaps have put it, and however long it has waited; one that has ended, until
// the tables have been swapped twice.
func TestFlowsAreFoundAcrossSwaps(t *testing.T) {
	world.NeedRoot(t)
	opt := DefaultOptions()
	_, err := runProxyParts(t.Context(), opt, []part{{what: "flows across swaps", run: func(b *proxyBench) error {
		p, err := b.newBridge(config.StrategyCookie, 1<<12)
		if err != nil {
			return err
		}
		defer p.Close()
		flowsAcrossSwaps(t, b, p)
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func flowsAcrossSwaps(t *testing.T, b *proxyBench, p *plane.Proxy) {
	xdp, _ := p.Programs()
	data := b.segmentFrame(40000)
	key, serverSays := flowKey(data), uint32(0x01020304)
	fromServer := slices.Clone(data)
	copy(fromServer[26:], data[30:34])
	copy(fromServer[30:], data[26:30])
	copy(fromServer[34:], data[36:38])
	copy(fromServer[36:], data[34:36])
	binary.BigEndian.PutUint32(fromServer[38:], serverSays)
	translated := func(step string, want bool) {
		t.Helper()
		out, err := b.through(xdp, fromServer, b.box.InnerPort.Index, xdpRedirect)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if is := binary.BigEndian.Uint32(out[38:]) == serverSays-readyFlow().SeqDelta; is != want {
			t.Errorf("%s: the server's segment is translated: %v, want %v", step, is, want)
		}
	}
	client := func(flags byte) {
		t.Helper()
		segment := slices.Clone(data)
		segment[47] = flags
		if _, err := b.through(xdp, segment, b.box.LegitPort.Index, xdpRedirect); err != nil {
			t.Fatal(err)
		}
	}
	in := func(step string, m *ebpf.Map, want bool) {
		t.Helper()
		var f plane.Flow
		if err := m.Lookup(key, &f); (err == nil) != want {
			t.Errorf("%s: the flow is in %s: %v, want %v", step, m, err == nil, want)
		}
	}
	active := func() *ebpf.Map {
		m, err := p.Active("tg_flows4")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	swap := func() {
		if err := p.SwapFlows(); err != nil {
			t.Fatal(err)
		}
	}
	translated("no flow", false)

	waiting := readyFlow()
	waiting.ClientPort = 1                             // TG_FLOW_SILENT of core/translate.h
	waiting.OptionBits = uint16(b.box.InnerPort.Index) // the port that the server's SYN-ACK came by, in a flow that is ready
	if err := p.Map("tg_waiting4").Put(key, waiting); err != nil {
		t.Fatal(err)
	}
	swap()
	swap()
	translated("it waits, and is not noted", true)
	client(0x10)
	in("the client has acknowledged", active(), true)
	for range 2 { // in either generation
		swap()
		in("swapped", active(), false)
		translated("in history", true)
		in("met in history", active(), true)
	}

	for swaps, found := range []bool{true, true, false} {
		if err := p.ForgetFlows(); err != nil {
			t.Fatal(err)
		}
		if err := p.Map("tg_waiting4").Put(key, waiting); err != nil {
			t.Fatal(err)
		}
		translated("it waits again", true)
		copy(data[38:42], fromServer[42:46]) // what the server wants next, as its last segment says
		client(0x14)
		in("reset", p.Map("tg_closed4"), true)
		in("reset", p.Map("tg_waiting4"), false)
		for range swaps {
			swap()
		}
		translated(fmt.Sprintf("it has ended, and tables were swapped %d times", swaps), found)
		if err := p.Map("tg_closed4").Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
	}
}
