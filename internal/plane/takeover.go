// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
)

// tablesVersion distinguishes tables whose entries have the same size and another meaning.
// A change of what an entry of a table that is taken over means, or of a hash by which it is found,
// must raise it: the next start then begins with empty tables, and reports that.
const tablesVersion = uint32(1)

// mapTablesVersion is pinned beside the tables; it has one entry.
const mapTablesVersion = "tg_tables"

// keptTables mean nothing without each other: all are taken over from an earlier process, or none.
type keptTables struct {
	loses string // what is lost if they cannot be taken over
	names []string
}

// takeOverTables opens an earlier process's pinned maps, group by group. The first group is needed to read
// the others: without it none is taken over. fits may refuse a map for another reason
// than its shape. Existing maps that cannot be taken over are reported in p.Lost.
func (p *Plane) takeOverTables(spec *ebpf.CollectionSpec, dir string, groups []keptTables, fits func(name string, m *ebpf.Map) bool) {
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		return
	}
	readable := sameTablesVersion(dir)
	for i, g := range groups {
		maps, why := openGroup(spec, dir, g.names, fits)
		if why == "" && !readable && len(maps) > 0 {
			why = "another version's"
		}
		if why != "" {
			closeMaps(maps)
			p.Lost = append(p.Lost, fmt.Sprintf("%s (%s)", g.loses, why))
			readable = readable && i != 0
			continue
		}
		for name, m := range maps {
			p.maps[name] = m
			p.remember(m)
		}
	}
}

// openGroup opens the pinned maps of a group; none, and no reason, if there is none.
func openGroup(spec *ebpf.CollectionSpec, dir string, names []string, fits func(string, *ebpf.Map) bool) (maps map[string]*ebpf.Map, why string) {
	maps = map[string]*ebpf.Map{}
	var missing []string
	for _, name := range names {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			missing = append(missing, name+" is missing")
			continue
		}
		if err == nil {
			maps[name] = m
			err = spec.Maps[name].Compatible(m)
		}
		if err != nil || fits != nil && !fits(name, m) {
			why = name + " has another shape"
		}
	}
	if why == "" && len(maps) > 0 {
		why = strings.Join(missing, ", ")
	}
	return maps, why
}

func closeMaps(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		m.Close()
	}
}

func sameTablesVersion(dir string) bool {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, mapTablesVersion), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return false
	}
	defer m.Close()
	var version uint32
	return m.Lookup(uint32(0), &version) == nil && version == tablesVersion
}

// addTablesVersion creates the map that holds the version of this plane's tables.
func (p *Plane) addTablesVersion() error {
	if p.maps[mapTablesVersion] != nil {
		return nil
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: mapTablesVersion, Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return err
	}
	p.maps[mapTablesVersion] = m
	return m.Put(uint32(0), tablesVersion)
}
