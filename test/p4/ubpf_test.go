// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"tidegate/internal/bpfcount"
	"tidegate/internal/keys"
	"tidegate/internal/p4"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

const (
	ubpfProgram  = "../../p4/ubpf/auth.p4"
	ubpfPass     = 1 // what a program returns; 0: drop
	ubpfRedirect = 3 // output_action
	ubpfOutside  = 1 // ports
	ubpfInside   = 2
)

// notOnUbpf says why the program for uBPF does not do what a vector asks for: it has no prefixes of services, it verifies no
// sums, and it does not parse all frames. Empty if it does.
func notOnUbpf(v *vectors.Vector) string {
	always := false
	for _, s := range v.Services {
		always = always || s.Mode == "always"
		if len(s.Prefixes) != 0 {
			return "prefixes of services"
		}
	}
	if !always {
		return "no service that is always protected"
	}
	if why, excused := unsupported[v.String()]; excused {
		return why
	}
	for _, p := range v.Packets {
		if why := notParsedOnUbpf(p.In); why != "" {
			return why
		}
	}
	return ""
}

// notParsedOnUbpf says what its parser does not parse in a frame.
func notParsedOnUbpf(frame []byte) string {
	const cut = "ends inside a header"
	at := 14
	for tags := 0; len(frame) >= at; tags++ {
		ip := frame[at:]
		var segment []byte
		switch binary.BigEndian.Uint16(frame[at-2:]) {
		case 0x8100, 0x88a8, 0x9100:
			if tags == 2 {
				return "three VLAN tags"
			}
			at += 4
			continue
		case 0x0800:
			if len(ip) < 20 {
				return cut
			}
			if ip[0] != 0x45 {
				return "IPv4 options, or another version or length of header"
			}
			if ip[9] != 6 || binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 {
				return ""
			}
			segment = ip[20:]
		case 0x86dd:
			if len(ip) < 40 {
				return cut
			}
			if ip[0]>>4 != 6 || slices.Contains([]byte{0, 43, 44, 60}, ip[6]) {
				return "IPv6 extension headers, or another version"
			}
			if ip[6] != 6 {
				return ""
			}
			segment = ip[40:]
		default:
			return ""
		}
		if len(segment) < 20 || len(segment) < int(segment[12]>>4)*4 {
			return cut
		}
		return ""
	}
	return cut
}

// ubpfSwitch runs a program of p4/ubpf, compiled to BPF, in an interpreter, with maps of its own.
type ubpfSwitch struct {
	insns        asm.Instructions
	shapes, maps map[string]*bpfcount.UserMap
	instructions int // of the longest run
}

func newUbpfSwitch(t *testing.T, source string) *ubpfSwitch {
	t.Helper()
	p4c, dir := tool(t, "P4C_UBPF", "p4c-ubpf"), t.TempDir()
	c, object := filepath.Join(dir, "program.c"), filepath.Join(dir, "program.o")
	for _, command := range [][]string{
		{p4c, "--Wdisable", "-o", c, source},
		{"clang-19", "-ffreestanding", "-O2", "-w", "-target", "bpf", "-mcpu=v3", "-mllvm", "-bpf-stack-size=8192", // of the interpreter
			"-I", "testdata/ubpf", "-c", c, "-o", object},
	} {
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, text)
		}
	}
	s := &ubpfSwitch{}
	if err := s.load(object); err != nil {
		t.Fatal(err)
	}
	return s
}

// load reads the instructions and the sizes of the maps that they name.
func (s *ubpfSwitch) load(object string) error {
	f, err := elf.Open(object)
	if err != nil {
		return err
	}
	defer f.Close()
	text, rel, data := f.Section(".text"), f.Section(".rel.text"), f.Section(".data")
	if text == nil || rel == nil || data == nil {
		return errors.New("an object without instructions or without maps")
	}
	symbols, err := f.Symbols()
	if err != nil {
		return err
	}
	code, err := text.Data()
	if err != nil {
		return err
	}
	if s.insns, err = asm.AppendInstructions(nil, bytes.NewReader(code), binary.LittleEndian, "linux"); err != nil {
		return err
	}
	at := map[uint64]int{}
	for it := s.insns.Iterate(); it.Next(); {
		at[uint64(it.Offset)*8] = it.Index
	}
	relocations, err := rel.Data()
	if err != nil {
		return err
	}
	sizes, err := data.Data()
	if err != nil {
		return err
	}
	s.shapes = map[string]*bpfcount.UserMap{}
	for ; len(relocations) >= 16; relocations = relocations[16:] {
		symbol := symbols[binary.LittleEndian.Uint64(relocations[8:])>>32-1]
		i, known := at[binary.LittleEndian.Uint64(relocations)]
		if !known || symbol.Size != 20 {
			return fmt.Errorf("%s is no map", symbol.Name)
		}
		ins := s.insns[i]
		ins.Src = asm.PseudoMapFD
		s.insns[i] = ins.WithReference(symbol.Name)
		def := sizes[symbol.Value:] // struct ubpf_map_def: type, key_size, value_size, max_entries, ...
		s.shapes[symbol.Name] = &bpfcount.UserMap{KeySize: int(binary.LittleEndian.Uint32(def[4:])), ValueSize: int(binary.LittleEndian.Uint32(def[8:]))}
		if strings.HasPrefix(symbol.Name, "bloom_part") || strings.HasPrefix(symbol.Name, "counts") { // registers
			s.shapes[symbol.Name].Zeros = binary.LittleEndian.Uint32(def[12:])
		}
	}
	return nil
}

// configure loads what a controller would: empty registers, default actions, the settings, the services. Of a service's
// prefixes this program knows nothing.
func (s *ubpfSwitch) configure(full bool, secret keys.Secret, epoch uint64, loaded []uint64, services []vectors.Service, staleDrop bool, salt uint64) error {
	s.maps = map[string]*bpfcount.UserMap{}
	for name, shape := range s.shapes {
		m := *shape
		m.Values = map[string][]byte{}
		if strings.HasSuffix(name, "_defaultAction") { // each table's first action
			m.Values["\x00\x00\x00\x00"] = make([]byte, m.ValueSize)
		}
		s.maps[name] = &m
	}
	settings, table := s.maps["AuthPipeline_settings_defaultAction"], s.maps["AuthPipeline_services"]
	if settings == nil || settings.ValueSize != 56 || table == nil || table.ValueSize != 16 {
		return fmt.Errorf("tables of other shapes than expected: settings %+v, services %+v", settings, table)
	}
	value := settings.Values["\x00\x00\x00\x00"]
	le := binary.LittleEndian
	le.PutUint32(value, 1) // the action `set`
	value[8], value[9], value[11] = b2u(full), b2u(staleDrop), byte(epoch&1)
	le.PutUint32(value[16:], ubpfInside)
	if slices.Contains(loaded, epoch) {
		value[10] = 1
		present, previous := secret.SmartKey(epoch), secret.SmartKey(epoch-1)
		copy(value[20:28], present[:8])
		copy(value[28:36], previous[:8])
	}
	copy(value[36:44], "whitelis") // the key of its registers: any
	le.PutUint64(value[48:], salt)
	for _, service := range services {
		v := make([]byte, 16)
		le.PutUint32(v, 1) // the action `serve`
		v[4], v[5] = byte(service.ID), modeNumber(service.Mode)
		le.PutUint16(v[6:], service.MSSv4)
		le.PutUint16(v[8:], service.MSSv6)
		le.PutUint16(v[10:], service.Window)
		v[12] = service.WScale
		table.Values[string(le.AppendUint16(nil, service.Port))] = v
	}
	return nil
}

func b2u(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func modeNumber(mode string) byte {
	return byte(slices.Index([]string{"off", "monitor", "always"}, mode))
}

// packet runs the program for a frame that comes in by a port.
func (s *ubpfSwitch) packet(in []byte, port uint32) (on, back [][]byte, err error) {
	metadata := make([]byte, 24) // struct standard_metadata
	binary.LittleEndian.PutUint32(metadata, port)
	binary.LittleEndian.PutUint32(metadata[4:], uint32(len(in)))
	r, err := bpfcount.User(s.insns, s.maps, in, metadata)
	if err != nil {
		return nil, nil, err
	}
	s.instructions = max(s.instructions, r.Instructions)
	switch {
	case r.Action != ubpfPass:
	case binary.LittleEndian.Uint32(metadata[8:]) != ubpfRedirect:
		on = append(on, r.Frame)
	case binary.LittleEndian.Uint32(metadata[12:]) == port:
		back = append(back, r.Frame)
	default:
		return nil, nil, fmt.Errorf("redirected to port %d", binary.LittleEndian.Uint32(metadata[12:]))
	}
	return on, back, nil
}

// counted are a service's counters.
func (s *ubpfSwitch) counted(service uint32) map[string]uint64 {
	got := map[string]uint64{}
	for name, m := range s.maps {
		if !strings.HasPrefix(name, "counts") {
			continue
		}
		for c := range uint32(schema.NumCounters) {
			at := binary.LittleEndian.AppendUint32(nil, service*uint32(schema.NumCounters)+c)
			if n := m.Values[string(at)]; n != nil && binary.LittleEndian.Uint32(n) != 0 {
				got[schema.Counter(c).String()] = uint64(binary.LittleEndian.Uint32(n))
			}
		}
	}
	return got
}

func (s *ubpfSwitch) replay(v *switchVector) (differences []string, err error) {
	for i := range v.Steps {
		step, port := &v.Steps[i], uint32(ubpfOutside)
		if step.From == "server" {
			port = ubpfInside
		}
		on, back, err := s.packet(step.In, port)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		differences = append(differences, step.differences(i, on, back)...)
	}
	return append(differences, v.miscounted(s.counted(1))...), nil
}

// TestUbpfAuthVectors replays the vectors of auth-full and auth-cookie on the program for uBPF: the same bytes, verdicts and
// counters as on simple_switch.
func TestUbpfAuthVectors(t *testing.T) {
	s := newUbpfSwitch(t, ubpfProgram)
	file, secret := loadSwitchVectors(t)
	passed := 0
	for i := range file.Vectors {
		v := &file.Vectors[i]
		if v.Strategy != p4.ProgramAuthFull && v.Strategy != p4.ProgramAuthCookie {
			continue
		}
		if n := slices.IndexFunc(v.Steps, func(step switchStep) bool { return notParsedOnUbpf(step.In) != "" }); n >= 0 {
			t.Logf("%s left out: %s", v.Name, notParsedOnUbpf(v.Steps[n].In))
			continue
		}
		if err := s.configure(v.Strategy == p4.ProgramAuthFull, secret, file.Epoch, []uint64{file.Epoch, file.Epoch - 1},
			[]vectors.Service{file.Service}, false, file.Salt); err != nil {
			t.Fatal(err)
		}
		differences, err := s.replay(v)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if len(differences) != 0 {
			t.Errorf("%s (%s):\n%s", v.Name, v.Why, strings.Join(differences, "\n"))
			continue
		}
		passed++
	}
	t.Logf("%d vectors agree; %d instructions of BPF at most", passed, s.instructions)
	if passed == 0 {
		t.Error("no vector was replayed")
	}
	s.replaySYNs(t)
}

// replaySYNs replays the SYNs and malformed frames of vectors/edge under auth-cookie, as proxyBench does.
func (s *ubpfSwitch) replaySYNs(t *testing.T) {
	t.Helper()
	all, err := vectors.Load(edgeVectors + "/syns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	passed, left, agree := 0, map[string]int{}, map[string]int{}
	for i := range all {
		v := &all[i]
		why, differences := notOnUbpf(v), s.edgeDifferences(t, v)
		switch {
		case why != "":
			left[why]++
			if len(differences) == 0 {
				agree[why]++
			}
		case len(differences) != 0:
			t.Errorf("%s (%s):\n%s", v, v.Why, strings.Join(differences, "\n"))
		default:
			passed++
		}
	}
	t.Logf("auth-cookie: %d vectors of the edge's %d agree", passed, len(all))
	for _, why := range slices.Sorted(maps.Keys(left)) {
		t.Logf("%d left out, %d of which agree all the same: %s", left[why], agree[why], why)
	}
	if passed == 0 {
		t.Error("no vector of the edge was replayed")
	}
}

func (s *ubpfSwitch) edgeDifferences(t *testing.T, v *vectors.Vector) (differences []string) {
	t.Helper()
	if err := s.configure(false, v.Secret, *v.Epoch, v.Keys, v.Services, v.StaleKeys == "drop", 1); err != nil {
		t.Fatal(err)
	}
	for n, p := range v.Packets {
		on, back, err := s.packet(p.In, ubpfOutside)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		step := switchStep{In: p.In}
		switch p.Verdict {
		case vectors.Pass:
			step.On = p.In
		case vectors.TX:
			step.Back = p.Out
		}
		differences = append(differences, step.differences(n, on, back)...)
	}
	return differences
}
