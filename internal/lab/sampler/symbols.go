// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Symbols are the functions of the running kernel, with its modules and BPF programs.
type Symbols struct {
	at   []uint64
	name []string
}

// KernelSymbols reads /proc/kallsyms.
func KernelSymbols() (*Symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSymbols(f)
}

func readSymbols(r io.Reader) (*Symbols, error) {
	type symbol struct {
		at   uint64
		name string
	}
	var all []symbol
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text()) // address, kind, name, module
		if len(f) < 3 || !strings.ContainsAny(f[1], "tTwW") {
			continue
		}
		at, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return nil, err
		}
		if at != 0 {
			all = append(all, symbol{at, f[2]})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("/proc/kallsyms has no addresses: set kernel.kptr_restrict to 0 or run this as root")
	}
	slices.SortStableFunc(all, func(a, b symbol) int {
		if a.at < b.at {
			return -1
		}
		return map[bool]int{true: 1}[a.at > b.at]
	})
	s := &Symbols{}
	for _, x := range all {
		s.at, s.name = append(s.at, x.at), append(s.name, x.name)
	}
	return s, nil
}

// Find returns the function at an address; empty if it lies before all.
func (s *Symbols) Find(ip uint64) string {
	i, found := slices.BinarySearch(s.at, ip)
	if !found {
		i--
	}
	if i < 0 {
		return ""
	}
	for i > 0 && s.at[i-1] == s.at[i] { // of several names for one address the first
		i--
	}
	return s.name[i]
}
