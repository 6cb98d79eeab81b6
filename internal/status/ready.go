// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// Unverifiable says why a host leaves all SYNs to the kernel, and what to do.
const Unverifiable = "a program that verifies ACKs is missing from the pinned map tg_parts, so SYNs go to the kernel; start `tidegate run` again"

// Ready describes in a word or two what an instance does; an error is why it does not do what it should.
func (st *Status) Ready(now time.Time) (string, error) {
	switch {
	case st.Draining:
		return "", fmt.Errorf("instance %q is being taken down: SYNs pass", st.Instance)
	case !st.Running:
		return "", fmt.Errorf("no process of instance %q runs; the packet path goes on until its keys expire", st.Instance)
	case st.Starting:
		return "", fmt.Errorf("instance %q is being started; what is installed is of the process before", st.Instance)
	case st.Unverifiable:
		return "", fmt.Errorf("instance %q is unprotected: %s", st.Instance, Unverifiable)
	case !now.Before(st.KeysUntil):
		return "", fmt.Errorf("the keys of instance %q have ended at %s; see its log", st.Instance, st.KeysUntil.Format(time.RFC3339))
	case st.P4 != nil && !st.P4.Answers:
		return "", fmt.Errorf("the switch of instance %q does not answer: %s", st.Instance, st.P4.Why)
	}
	var protected, watched []string
	for _, svc := range st.Services {
		switch config.Mode(svc.Mode) {
		case config.ModeAlways, config.ModeAuto:
			if len(svc.Degraded) > 0 {
				return "", fmt.Errorf("service %s of instance %q is unprotected: listener %s: %s", svc.Name, st.Instance, svc.Degraded[0].Listener, svc.Degraded[0].Explain())
			}
			protected = append(protected, svc.Name)
		case config.ModeMonitor:
			watched = append(watched, svc.Name)
		}
	}
	switch {
	case len(protected) > 0:
		return "protecting " + strings.Join(protected, ", "), nil
	case len(watched) > 0:
		return "monitoring " + strings.Join(watched, ", ") + "; nothing is protected, as configured", nil
	}
	return "", fmt.Errorf("every service of instance %q is in mode off", st.Instance)
}

// UpstreamReady is Ready of a patrol or a manager.
func UpstreamReady(up *instance.Upstream) (string, error) {
	if !up.Running {
		return "", errors.New("no process of instance " + up.Instance + " runs")
	}
	if up.Starting {
		return "", errors.New("instance " + up.Instance + " is being started")
	}
	return up.Role + " runs", nil
}
