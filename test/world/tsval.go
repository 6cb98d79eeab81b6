// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// An adopted connection's TSvals go on this much after the SYN-ACK's (TG_ADOPT_TSVAL_AHEAD_MS of core/host.h): docs/cookie-format.md says why.
const adoptedAhead = (1 << 22) * time.Millisecond

// WantTSvals watches the client's port while connect opens a connection over IPv4 and receives data: the TSval of the server's first data must come after the
// SYN-ACK's by the time that has passed; of an adopted connection, by 70 minutes more.
func WantTSvals(t *testing.T, at *rig.Port, adopted bool, connect func() error) {
	t.Helper()
	tap, err := load.NewTap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	done := make(chan error, 1)
	go func() { done <- connect() }()
	var synack load.Segment
	data, there := tap.Next(time.Now().Add(Patience), func(s load.Segment) bool {
		if s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK {
			synack = s
			synack.Options = append([]byte(nil), s.Options...)
		}
		return len(s.Payload) > 0 && s.Src == synack.Src && s.Dst == synack.Dst
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	first, then := tsval(synack.Options), tsval(data.Options)
	if !there || first == nil || then == nil {
		t.Fatalf("no SYN-ACK and data with timestamps: %v and %v", synack, data)
	}
	step := time.Duration(*then-*first) * time.Millisecond
	if adopted {
		step -= adoptedAhead
	}
	if step < 0 || step > Patience {
		t.Errorf("adopted %t: the first data's TSval comes %v after the SYN-ACK's, or %v less than was to be", adopted, step, adoptedAhead)
	}
}

// tsval is the TSval of an option list; nil: none.
func tsval(o []byte) *uint32 {
	for len(o) > 1 && o[0] != 0 {
		switch {
		case o[0] == 1:
			o = o[1:]
			continue
		case o[0] == 8 && len(o) >= 10:
			v := binary.BigEndian.Uint32(o[2:])
			return &v
		case o[1] < 2 || int(o[1]) > len(o):
			return nil
		}
		o = o[o[1]:]
	}
	return nil
}
