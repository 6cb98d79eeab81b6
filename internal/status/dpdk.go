// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
)

// dpdkStatus is the status of an instance with plane: dpdk, which answers only while
// it runs.
func dpdkStatus(st *instance.StateFile, name, stateDir string) (*Status, error) {
	epoch := time.Duration(st.EpochNs)
	out := &Status{Role: st.Role, Forwarding: st.Forwarding, OneSided: st.OneSided, Lists: st.Lists, Version: st.Version, Instance: name, PID: st.PID,
		Started: st.Started, Interfaces: st.Interfaces, Epoch: keys.Epoch(time.Now(), epoch)}
	var err error
	if out.Running, out.Starting, err = instance.RunningFrom(stateDir, name, st.Run); err != nil {
		return nil, err
	}
	out.KeysUntil = keys.EpochStart(st.LastKey+1, epoch)
	if out.Running { // it loads keys as time goes by
		out.KeysUntil = time.Now().Add(time.Duration(st.KeyHorizon)).Truncate(epoch)
	}
	program, err := dpdk.ReadState(st.DPDK)
	if err != nil {
		return nil, err
	}
	out.DPDK, out.DPDKPrefix = &program, st.DPDK
	if program.Capturing > 0 {
		out.Capturing = []string{"dpdk"}
	}
	if out.Global, err = dpdk.Counters(st.DPDK, 0); err != nil {
		return nil, err
	}
	for _, svc := range st.Services {
		s := Service{Name: svc.Name, Mode: svc.Mode, Strategy: svc.Strategy}
		if s.Counters, err = dpdk.Counters(st.DPDK, svc.ID); err != nil {
			return nil, err
		}
		out.Services = append(out.Services, s)
	}
	if st.SourceLimits != nil {
		out.SourceLimits, err = readSourceLimits(st.SourceLimits, "", st.DPDK)
	}
	return out, err
}
