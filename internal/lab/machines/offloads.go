// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"fmt"
)

// bulkBytes is what a connection carries each way, unless the options say otherwise.
const bulkBytes = 1 << 30

// measure transfers the bytes, one family after the other.
func (m *Machine) measure(ctx context.Context, row *Row, into func(*Family) *Goodput) error {
	for i := range row.Families {
		f := &row.Families[i]
		up, down, err := m.bulk(ctx, f.IPv6, m.Bulk)
		if err != nil {
			return fmt.Errorf("%s: %w", familyName(f.IPv6), err)
		}
		g := into(f)
		g.Up, g.Down = float64(8*m.Bulk)/float64(up.Nanoseconds()), float64(8*m.Bulk)/float64(down.Nanoseconds())
	}
	return nil
}

// loaded is a server for bulk transfers, with the offloads of a container or without.
func loaded(offloads bool, mtu int, takeover string, build func(*Machine) error) func(*Machine) error {
	return func(m *Machine) error {
		m.Bulk, m.Takeover = bulkBytes, takeover
		var errs []error
		if offloads { // partial checksums, which allow 64 KiB frames
			errs = append(errs, m.ClientPort.EnableTxChecksum())
		}
		if mtu != 0 {
			// veth refuses this MTU while a program without fragment support is attached.
			errs = append(errs, m.ClientPort.DetachXDP())
			errs = append(errs, m.ClientPort.SetMTU(mtu), m.ServerPort.SetMTU(mtu))
		}
		return errors.Join(append(errs, build(m))...)
	}
}

func plainServer(m *Machine) error { return m.Serve(m.Server, "") }

func offloads() (all []Scenario) {
	for _, how := range []How{Adopted, Translated} {
		for _, s := range []Scenario{
			{Name: "wire", About: "frames as on a wire", Build: loaded(false, 0, string(how), plainServer)},
			{Name: "on", About: "offloads left on: partial checksums, 64 KiB frames", Build: loaded(true, 0, string(how), plainServer)},
			{Name: "mtu-9000", About: "MTU 9000", Build: loaded(false, 9000, string(how), plainServer)},
			{Name: "mtu-9000-on", About: "MTU 9000, offloads left on", Build: loaded(true, 9000, string(how), plainServer)},
			{Name: "vlan", About: "a VLAN device, offloads left on", Link: "vlan id 9", Build: loaded(true, 0, string(how), func(m *Machine) error { return vlan(m, "tg-server") })},
		} {
			s.Name, s.About, s.How = s.Name+"-"+string(how), s.About+", 1 GiB each way: "+string(how), how
			all = append(all, s)
		}
	}
	return all
}
