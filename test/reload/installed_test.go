// SPDX-License-Identifier: Apache-2.0

package reloadtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"tidegate/internal/dpdk"
	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// installed is the content of an instance's maps: each value by "MAP KEY". Values that are zero are left out. Under plane: dpdk, it
// is what tidegate-dpdk says of its configuration.
type installed map[string]string

// Of these maps the content follows time, traffic, how often lists were replaced, or what the kernel tells of routes and addresses.
var moving = []string{"tg_keys", "tg_tag_keys", "tg_counters", "tg_macs", "tg_edge_reports", "tg_reply_hops", "tg_own_addrs",
	"tg_servers_near", "tg_kernel_syns", "tg_list_front", "tg_list_bits", "tg_presence", "tg_socket_bits", "tg_destinations", "tg_filling"}

// What of tg_settings changes with time: the byte that says which half of the counts of sockets holds, and the words with the epoch and the clock.
const (
	flips = unsafe.Offsetof(plane.Settings{}.HeldHalf)
	near  = unsafe.Offsetof(plane.Settings{}.EpochNear)
)

// flowKey is random in each process, flowsTurn counts reloads, too; each shares a word with a field that is compared.
const (
	flowKey   = unsafe.Offsetof(plane.Service{}.FlowKey)
	flowsTurn = unsafe.Offsetof(plane.ProxySettings{}.FlowsTurn)
)

// mostEntries is the size of the largest map that is read: larger ones are of connections and sources.
const mostEntries = 1 << 16

// readOf reads what an instance has installed, on either plane.
func readOf(in *harness.Instance) installed {
	in.T.Helper()
	if !onDPDK {
		return read(in.T, in.PinDir())
	}
	config, err := dpdk.ReadConfig("tidegate-"+in.Name, 1)
	if err != nil {
		in.T.Fatal(err)
	}
	all := installed{}
	for name, value := range config {
		all[name] = string(value)
	}
	return all
}

// read reads what is pinned. Only arrays and hashes hold configuration.
func read(t *testing.T, dir string) installed {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := installed{}
	for _, f := range files {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, f.Name()), nil)
		if err != nil { // a link
			continue
		}
		if kinds := []ebpf.MapType{ebpf.Array, ebpf.Hash}; slices.Contains(kinds, m.Type()) && m.MaxEntries() <= mostEntries && !slices.Contains(moving, f.Name()) {
			all.add(t, f.Name(), m)
		}
		m.Close()
	}
	if len(all) == 0 {
		t.Fatalf("nothing is installed in %s", dir)
	}
	return all
}

// add reads a map. A batch is read into a slice of byte arrays, whose lengths are the map's.
func (all installed) add(t *testing.T, name string, m *ebpf.Map) {
	t.Helper()
	of := func(size uint32) reflect.Value {
		array := reflect.ArrayOf(int(size), reflect.TypeFor[byte]())
		return reflect.MakeSlice(reflect.SliceOf(array), int(m.MaxEntries()), int(m.MaxEntries()))
	}
	keys, values := of(m.KeySize()), of(m.ValueSize())
	var at ebpf.MapBatchCursor
	n, err := m.BatchLookup(&at, keys.Interface(), values.Interface(), nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatalf("map %s: %v", name, err)
	}
	for i := range n {
		value := bytesOf(values.Index(i))
		switch name {
		case plane.VarSettings:
			value = value[:flips] + "\x00" + value[flips+1:near] + strings.Repeat("\x00", 3*8) + value[near+3*8:]
		case plane.VarServices:
			entries := []byte(value)
			for at := int(flowKey); at < len(entries); at += int(unsafe.Sizeof(plane.Service{})) {
				clear(entries[at:][:4])
			}
			value = string(entries)
		case plane.VarProxy:
			value = value[:flowsTurn] + "\x00\x00\x00\x00" + value[flowsTurn+4:]
		}
		if strings.Trim(value, "\x00") != "" {
			all[fmt.Sprintf("%s %x", name, bytesOf(keys.Index(i)))] = value
		}
	}
}

func bytesOf(array reflect.Value) string {
	b := make([]byte, array.Len())
	reflect.Copy(reflect.ValueOf(b), array)
	return string(b)
}

// word is what is compared at once: clocks, generations and random keys are whole words.
const word = 8

// noise is the words that differ between two starts with one file.
type noise map[string]bool

func words(key, value string) (names []string) {
	for at := 0; at < len(value); at += word {
		names = append(names, fmt.Sprintf("%s+%d", key, at))
	}
	return names
}

// differing names the words, other than noise, that two states do not share.
func differing(a, b installed, but noise) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
		va, vb := a[key], b[key]
		n := max(len(va), len(vb))
		pad := func(v string) string { return v + strings.Repeat("\x00", n-len(v)) }
		va, vb = pad(va), pad(vb)
		for i, name := range words(key, va) {
			from, to := i*word, min((i+1)*word, n)
			if va[from:to] != vb[from:to] && !but[name] {
				names = append(names, fmt.Sprintf("%s: %x, %x", name, va[from:to], vb[from:to]))
			}
		}
	}
	return names
}

func union(a, b installed) installed {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func noiseOf(a, b installed) noise {
	found := noise{}
	for _, d := range differing(a, b, nil) {
		found[strings.SplitN(d, ": ", 2)[0]] = true
	}
	return found
}
