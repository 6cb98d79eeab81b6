// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Owner identifies the process that a namespace, pin or directory belongs to.
// A pid alone can be reused; pid and start time together cannot.
type Owner struct {
	pid        int
	startTicks uint64
}

// Self is this process as an owner.
func Self() (Owner, error) { return OwnerOf(os.Getpid()) }

// OwnerOf is another process as an owner.
func OwnerOf(pid int) (Owner, error) {
	start, err := startTicks(pid)
	return Owner{pid: pid, startTicks: start}, err
}

// String is the form used inside names: "<pid>-<start>".
func (o Owner) String() string { return fmt.Sprintf("%d-%d", o.pid, o.startTicks) }

// parseOwner parses "<pid>-<start>" and returns the rest of s, without its leading dash.
func parseOwner(s string) (o Owner, rest string, ok bool) {
	pidText, after, found := strings.Cut(s, "-")
	if !found {
		return Owner{}, "", false
	}
	startText, rest, _ := strings.Cut(after, "-")
	pid, err := strconv.ParseUint(pidText, 10, 31)
	if err != nil || pid == 0 {
		return Owner{}, "", false
	}
	start, err := strconv.ParseUint(startText, 10, 64)
	if err != nil {
		return Owner{}, "", false
	}
	return Owner{pid: int(pid), startTicks: start}, rest, true
}

// alive reports whether that very process still runs. In doubt it returns true,
// so that nothing is taken from a living owner.
func (o Owner) alive() bool {
	start, err := startTicks(o.pid)
	if os.IsNotExist(err) {
		return false
	}
	return err != nil || start == o.startTicks
}

// startTicks is field 22 of /proc/<pid>/stat: clock ticks since boot. A zombie
// counts as gone: it holds nothing any more.
func startTicks(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command name, field 2, may hold spaces and parentheses.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("/proc/%d/stat: no command name", pid)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
