// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/config"
	"tidegate/internal/proginfo"
)

// tcOrderChecks names, for each interface, the programs that TC ingress runs before ours (TCX). Without TCX there is nothing to list.
func tcOrderChecks(c *config.Config) (list []Check) {
	for _, name := range c.Interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			continue // interfaceChecks says so
		}
		programs, err := tcPrograms(dev.Index)
		if err != nil {
			continue
		}
		before := inFront(programs, c.TCOrder == config.TCLast)
		if len(before) == 0 {
			continue
		}
		check := Check{Name: "TC " + name, Status: OK, Found: someWords(before) + ": before tidegate at TC ingress"}
		if c.TCOrder != config.TCLast { // nobody has asked for it
			check.Status, check.Means = Warn, "where such a program ends the chain (TC_ACT_OK) or drops, no cookie is verified and clients are cut off"
			check.Fix = "attach tidegate after it: `tidegate off`, then start it again; or set `tc_order: last` if it passes packets on"
		}
		list = append(list, check)
	}
	return list
}

// tcPrograms are the names of what is linked to TC ingress, in the order in which it runs.
func tcPrograms(index int) (names []string, err error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return nil, err
	}
	for _, p := range found.Programs {
		name := fmt.Sprintf("program %d", p.ID)
		if prog, err := ebpf.NewProgramFromID(p.ID); err == nil {
			if known, err := proginfo.Name(prog); err == nil && known != "" {
				name = known
			}
			prog.Close()
		}
		names = append(names, name)
	}
	return names, nil
}

// inFront are those that run before ours, which is there, or will be put before or after (last) all others.
func inFront(programs []string, last bool) []string {
	for i, name := range programs {
		if strings.HasPrefix(name, "tg_") {
			return programs[:i]
		}
	}
	if last {
		return programs
	}
	return nil
}
