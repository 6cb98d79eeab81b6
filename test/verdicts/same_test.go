// SPDX-License-Identifier: Apache-2.0

package verdicts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/test/world"
)

// differences is the page whose table says which fields of a SYN-ACK tell a gate from a bare kernel.
const differences = "../../docs/differences.md"

// fieldNames are the rows of the table. What is random in both (sequence number, TSval, checksums) is not compared.
var fieldNames = []string{"addresses", "frame length", "TTL", "DSCP", "IP ECN", "IPv4 DF", "IPv4 ID", "IPv6 flow label",
	"acknowledgment", "flags", "window", "urgent pointer", "order of options", "MSS", "window scale", "TSecr"}

// sameKinds are the columns: each gate with the defaults of its role, mode always. An edge answers SYNs itself,
// whatever its server does; a proxy that has not verified any client has not learned what its servers offer.
func sameKinds() []kind {
	host := func(name, more string) kind {
		return kind{name: name, gates: []gate{{at: "server", config: "interfaces: [tg-server]\n" + more}}}
	}
	edge := func(name, more string) kind {
		return kind{name: name, boxed: true, gates: []gate{{at: "box",
			config: "role: edge\ninterfaces: [tg-flood, tg-legit, tg-inner]\ninside: [tg-inner]\nlearning: 0s\n" + more}}}
	}
	list := []kind{host("host adopt", "takeover: adopt\n"), host("host translate", "takeover: translate\n"),
		edge("edge plain", ""), edge("edge tagged", "protocol: tagged\nedge_id: 1\n"), boxedProxy("cookie")}
	for _, k := range list {
		for i := range k.gates {
			k.gates[i].asIs = true
		}
	}
	return list
}

// offers are the options and flags of the SYNs that are compared.
var offers = []struct {
	name    string
	flags   load.TCPFlags
	options []byte
}{
	{"none", 0, nil},
	{"MSS", 0, []byte{2, 4, 5, 180}},
	{"small MSS", 0, []byte{2, 4, 2, 24}},
	{"as Linux", 0, []byte{2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}},
	{"as Linux, with ECN", 0xc0, []byte{2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}},
	{"as Windows", 0, []byte{2, 4, 5, 180, 1, 3, 3, 8, 1, 1, 4, 2}},
	{"as Windows, with ECN", 0xc0, []byte{2, 4, 5, 180, 1, 3, 3, 8, 1, 1, 4, 2}},
	{"as macOS", 0, []byte{2, 4, 5, 180, 1, 3, 3, 6, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 4, 2, 0, 0}},
	{"timestamps only", 0, []byte{1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0}},
	{"SACK only", 0, []byte{1, 1, 4, 2}},
	{"window scale only", 0, []byte{1, 3, 3, 14}},
}

const sameSeq = 0x1000

// A SYN-ACK of each gate differs from a bare kernel's in the fields that docs/differences.md
// lists, and in no other; what it lists does differ.
func TestSameAnswer(t *testing.T) {
	if onDPDK {
		t.Skip("the table is of the planes of Linux; TestPlanes holds DPDK's proxy to the same bytes as XDP's")
	}
	world.NeedRoot(t)
	kinds := sameKinds()
	listed := readDifferences(t, kinds)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			// A window scale that no gate has by default, whatever the machine's memory.
			settings := [][2]string{{"net.ipv4.tcp_syncookies", "1"}, {"net.ipv4.tcp_rmem", "4096 131072 33554432"}}
			got := map[string]string{} // by field: the first difference
			var answers [2]map[uint16]map[string]string
			for i, gates := range [][]gate{nil, k.gates} {
				answers[i] = newMachineWith(t, k.boxed, settings, gates...).answersToOffers(t)
			}
			for port, bare := range answers[0] {
				for _, field := range fieldNames {
					if gated := answers[1][port][field]; gated != bare[field] {
						ipv6, offer := offerOf(port)
						got[field] = fmt.Sprintf("%s, options %s: %s, a bare kernel's %s", world.FamilyName(ipv6), offers[offer].name, gated, bare[field])
					}
				}
			}
			for _, field := range fieldNames {
				switch listed := listed[k.name][field]; {
				case got[field] != "" && !listed:
					t.Errorf("%s is unlike a bare kernel's, which %s does not say: %s", field, differences, got[field])
				case got[field] == "" && listed:
					t.Errorf("%s is as a bare kernel's; %s says that it differs", field, differences)
				}
			}
		})
	}
}

// Each offer has a port of its own, in each family.
func portOfOffer(ipv6 bool, offer int) uint16 {
	if ipv6 {
		return uint16(firstPort + 100 + offer)
	}
	return uint16(firstPort + offer)
}

func offerOf(port uint16) (ipv6 bool, offer int) {
	ipv6 = port >= firstPort+100
	return ipv6, int(port-firstPort) % 100
}

// answersToOffers sends a SYN with each offer and parses the answers, by the client's port.
func (m *machine) answersToOffers(t *testing.T) map[uint16]map[string]string {
	t.Helper()
	sent := map[uint16]*load.Frame{}
	for f, clients := range m.net.Clients {
		ipv6 := f == 1
		if ipv6 && len(world.Families()) == 1 {
			continue
		}
		for i, offer := range offers {
			port := portOfOffer(ipv6, i)
			sent[port] = &load.Frame{To: m.net.GateMAC[:], From: m.net.SourceMAC[:], Src: netip.AddrPortFrom(clients.Addr().Next(), port),
				Dst: netip.AddrPortFrom(m.net.Service[f], servicePort), Flags: load.FlagSYN | offer.flags, Seq: sameSeq, Window: 64240, Options: offer.options}
		}
	}
	answers := map[uint16]map[string]string{}
	for deadline := time.Now().Add(patience); len(answers) < len(sent); {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d SYNs were answered within %v", len(answers), len(sent), patience)
		}
		for port, f := range sent { // as a client does without an answer
			if answers[port] != nil {
				continue
			}
			if _, err := m.send(f.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		for {
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}, 500); n == 0 || err != nil {
				break
			}
			n, _, err := unix.Recvfrom(m.fd, m.buf, unix.MSG_DONTWAIT)
			if err != nil {
				break
			}
			port, a, ok := parse(m.buf[:n])
			if f := sent[port]; ok && a.isSYNACK() && f != nil && answers[port] == nil {
				answers[port] = takeApart(m.buf[:n], f)
			}
			if len(answers) == len(sent) {
				break
			}
		}
	}
	return answers
}

// takeApart names the fields of a SYN-ACK without tags or extension headers that answers a SYN.
func takeApart(b []byte, syn *load.Frame) map[string]string {
	f := map[string]string{}
	zero := func(n uint32) string {
		if n == 0 {
			return "0"
		}
		return "not 0"
	}
	ip, tcp, total := b[14:], b[34:], 0
	var src, dst []byte
	if b[12] == 8 {
		total = int(binary.BigEndian.Uint16(ip[2:]))
		f["DSCP"], f["IP ECN"], f["TTL"] = fmt.Sprint(ip[1]>>2), fmt.Sprint(ip[1]&3), fmt.Sprint(ip[8])
		f["IPv4 DF"], f["IPv4 ID"] = fmt.Sprintf("%#x", binary.BigEndian.Uint16(ip[6:])), zero(uint32(binary.BigEndian.Uint16(ip[4:])))
		src, dst = ip[12:16], ip[16:20]
	} else {
		tcp, total = b[54:], 40+int(binary.BigEndian.Uint16(ip[4:]))
		first := binary.BigEndian.Uint32(ip)
		f["DSCP"], f["IP ECN"], f["TTL"] = fmt.Sprint(first>>22&63), fmt.Sprint(first>>20&3), fmt.Sprint(ip[7])
		f["IPv6 flow label"] = zero(first & 0xfffff)
		src, dst = ip[8:24], ip[24:40]
	}
	f["frame length"] = fmt.Sprintf("%d around %d", len(b), total)
	f["addresses"] = fmt.Sprint(bytes.Equal(b[:6], syn.From), bytes.Equal(b[6:12], syn.To), bytes.Equal(src, syn.Dst.Addr().AsSlice()),
		bytes.Equal(dst, syn.Src.Addr().AsSlice()), binary.BigEndian.Uint16(tcp) == syn.Dst.Port())
	f["acknowledgment"] = fmt.Sprint(int64(binary.BigEndian.Uint32(tcp[8:])) - int64(syn.Seq))
	f["flags"] = fmt.Sprintf("%#x", binary.BigEndian.Uint16(tcp[12:])&0xfff)
	f["window"], f["urgent pointer"] = fmt.Sprint(binary.BigEndian.Uint16(tcp[14:])), fmt.Sprint(binary.BigEndian.Uint16(tcp[18:]))
	var order []string
	for o := tcp[20 : tcp[12]>>4*4]; len(o) > 0; {
		size := 1
		if o[0] > 1 {
			size = max(2, int(o[1]))
		}
		order = append(order, fmt.Sprint(o[0]))
		switch {
		case o[0] == 2 && size == 4:
			f["MSS"] = fmt.Sprint(binary.BigEndian.Uint16(o[2:]))
		case o[0] == 3 && size == 3:
			f["window scale"] = fmt.Sprint(o[2])
		case o[0] == 8 && size == 10:
			f["TSecr"] = fmt.Sprint(binary.BigEndian.Uint32(o[6:]))
		}
		o = o[min(size, len(o)):]
	}
	f["order of options"] = strings.Join(order, " ")
	return f
}

// readDifferences reads the table of the page: by gate and field, whether the field differs.
func readDifferences(t *testing.T, kinds []kind) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(differences)
	if err != nil {
		t.Fatal(err)
	}
	var columns, seen []string
	listed := map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == nil && cells[0] == "field of the SYN-ACK":
			columns = cells
			for _, name := range columns[1:] {
				listed[name] = map[string]bool{}
			}
		case columns != nil && slices.Contains(fieldNames, cells[0]) && len(cells) == len(columns):
			seen = append(seen, cells[0])
			for i, cell := range cells[1:] {
				if cell != "same" && cell != "differs" {
					t.Errorf("%s: %s, %s: %q is neither same nor differs", differences, cells[0], columns[i+1], cell)
				}
				listed[columns[i+1]][cells[0]] = cell == "differs"
			}
		}
	}
	if !slices.Equal(seen, fieldNames) {
		t.Errorf("%s has the rows %q, not %q", differences, seen, fieldNames)
	}
	for _, k := range kinds {
		if listed[k.name] == nil {
			t.Errorf("%s has no column %q", differences, k.name)
		}
	}
	return listed
}
