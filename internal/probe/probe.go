// SPDX-License-Identifier: Apache-2.0

// Package probe checks, feature by feature, what this kernel and this machine
// offer to a role, what they lack and what that means. It only reads:
// it must not attach a program, change a setting or write a file.
package probe

import (
	"fmt"

	"tidegate/internal/config"
)

// Status is the outcome of one check.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn" // works, but something is lost; Means says what
	Fail Status = "FAIL" // cannot work until it is fixed
)

// Check is one checked item.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Means  string `json:"means,omitempty"` // what its lack means
	Fix    string `json:"fix,omitempty"`   // the cure
}

// Report is the result of all checks.
type Report struct {
	OK       bool    `json:"ok"` // nothing failed
	Failed   int     `json:"failed"`
	Warnings int     `json:"warnings"`
	Checks   []Check `json:"checks"`

	// Takeovers are, for each listener, how its connections are taken over, and why (roles host and server).
	Takeovers []Takeover `json:"takeovers,omitempty"`
}

func (r *Report) add(list ...Check) {
	for _, c := range list {
		switch c.Status {
		case Fail:
			r.Failed++
		case Warn:
			r.Warnings++
		}
		r.Checks = append(r.Checks, c)
	}
	r.OK = r.Failed == 0
}

// Summary is the one line at the end.
func (r *Report) Summary() string {
	verdict := "this machine can run tidegate"
	if !r.OK {
		verdict = "this machine cannot run tidegate until each FAIL is fixed"
	}
	return fmt.Sprintf("%d checks, %d failed, %d warnings: %s", len(r.Checks), r.Failed, r.Warnings, verdict)
}

// Run checks the machine; with a configuration also what it names.
func Run(c *config.Config) *Report {
	r := &Report{OK: true}
	if c != nil && c.Plane == config.PlaneP4 {
		r.add(append(switchChecks(c), nextSecretCheck(c)...)...)
		return r
	}
	privileged := addPrivileges(r)
	if c != nil && (c.Patrol != nil || c.Border != nil || c.Filter != nil) {
		r.add(upstreamChecks(c, privileged)...)
		return r
	}
	if c != nil {
		r.add(nextSecretCheck(c)...)
	}
	if c != nil && c.Plane == config.PlaneDPDK {
		r.add(dpdkChecks(c)...)
		return r
	}
	if c != nil && c.Role == config.RoleProxy {
		r.add(proxyChecks(c, privileged)...)
		return r
	}
	if c != nil && c.Role == config.RoleEdge {
		r.add(edgeChecks(c, privileged)...)
		return r
	}
	if c != nil && c.Role == config.RoleServer {
		r.add(serverChecks(c, privileged)...)
		r.addTakeovers(c, privileged)
		return r
	}
	configured, takeover := config.RoleHost, config.TakeoverAuto
	if c != nil {
		configured, takeover = c.Role, c.Server.Takeover
	}
	for _, check := range kernelChecks() {
		r.add(withoutAdoption(check, takeover))
	}
	r.add(programChecks(privileged)...)
	r.add(acceptChecks(privileged, configured)...)
	r.add(mountChecks()...)
	for _, check := range sysctlChecks() {
		r.add(withoutAdoption(check, takeover))
	}
	if c == nil {
		r.add(interfaceChecks(nil, config.XDPAuto, config.DispatcherAuto, config.RoleHost)...)
		r.addTakeovers(nil, privileged)
		return r
	}
	r.add(interfaceChecks(c.Interfaces, c.XDPMode, c.Dispatcher, c.Role)...)
	r.add(tcOrderChecks(c)...)
	r.add(secretCheck(c.SecretFile))
	r.add(serviceChecks(c.Services, c.Interfaces)...)
	r.addTakeovers(c, privileged)
	return r
}

// addTakeovers reads firewall rules, which needs privileges.
func (r *Report) addTakeovers(c *config.Config, privileged bool) {
	if !privileged {
		return
	}
	list, found := hostTakeovers(c)
	r.add(list...)
	r.Takeovers = found
	r.correct(found, c == nil || c.Server.Takeover != config.TakeoverAdopt)
}

func addPrivileges(r *Report) bool {
	c, ok := privilegeCheck(effectiveCaps())
	r.add(c)
	return ok
}
