// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// TellLost logs what a start could not take over from the previous process.
func TellLost(log *slog.Logger, lost []string) {
	for _, what := range lost {
		log.Warn("not taken over from the previous process; its contents are lost", "what", what)
	}
}

// Rejoin puts the XDP program back where another has taken its dispatcher away, and logs both.
func Rejoin(log *slog.Logger, p interface {
	Rejoin(time.Time) (missed, back []string, err error)
}) error {
	missed, back, err := p.Rejoin(time.Now())
	for _, name := range missed {
		log.Warn("somebody has removed or replaced the XDP dispatcher that ran our program: SYNs pass unprotected until it has joined again", "interface", name)
	}
	for _, name := range back {
		log.Info("joined the XDP dispatcher again", "interface", name)
	}
	return err
}

// noCodepoint is one that no packet carries: segments of no connection are then not counted.
const noCodepoint = 0xff

// SetReport makes the packet path count proven sources, if the configuration enables
// reports or announces them (internal/offender), or remembers them for `why`, or its fleet adds them up.
func SetReport(c *config.Config, s *plane.Settings) (err error) {
	announces := c.BGP.Offenders == config.OffendersSource || c.BGP.Offenders == config.OffendersFlow
	switch {
	case c.ReportTo.API != "":
		s.Report, s.ReportDscp = 1, c.ReportTo.Codepoint
	case announces || c.Remember || c.FleetSources > 0:
		s.Report, s.ReportDscp = 1, noCodepoint
	default:
		s.Report, s.ReportDscp = 0, 0
		return nil
	}
	if s.FilterKeys[0] == 0 { // proxy and edge have no socket filter, and no keys for one
		s.FilterKeys, err = RandomFilterKeys()
	}
	return err
}

// RandomFilterKeys are keys of the packet paths' keyed filters.
func RandomFilterKeys() (filterKeys [10]uint64, err error) {
	raw := make([]byte, 8*len(filterKeys))
	if _, err := rand.Read(raw); err != nil {
		return filterKeys, err
	}
	for i := range filterKeys {
		filterKeys[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return filterKeys, nil
}

// RandomAcross is what marks answers that leave by another interface between the packet path's programs (bpf/lib/across.h):
// never 0, and never a group's address.
func RandomAcross() (uint64, error) {
	var raw [8]byte
	_, err := rand.Read(raw[:])
	return (binary.LittleEndian.Uint64(raw[:]) &^ 1) | 2, err
}

// RandomFlowKey is the secret of IPv6 flow labels (core/synack.h). Odd: every bit of a sequence number counts.
func RandomFlowKey() (uint32, error) {
	var raw [4]byte
	_, err := rand.Read(raw[:])
	return binary.LittleEndian.Uint32(raw[:]) | 1, err
}

// LabelsFlows reports whether this machine's kernel labels IPv6 packets of sockets that do not ask for anything.
func LabelsFlows() bool {
	v, err := SysctlInts("net/ipv6/auto_flowlabels", 1)
	return err == nil && (v[0] == 1 || v[0] == 3) // 2: only of those that ask; there is none without IPv6
}

// Flag is a boolean as the packet path reads it.
func Flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
