// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// journal keeps every sample as soon as it is measured, so that tables of hours can be interrupted and continued.
type journal struct {
	f    *os.File
	done map[entry]float64
	key  string // Identity: samples of another firmware do not count
}

// entry identifies a sample.
type entry struct {
	Identity string `json:"identity"`
	Policy   string `json:"policy"`
	Layout   string `json:"layout"`
	Queue    int    `json:"queue"`
	Rate     int    `json:"syn_rate"`
	Seconds  int    `json:"seconds"`
	Seed     uint64 `json:"seed"`
}

// line is an entry with its value.
type line struct {
	entry
	Mbps float64 `json:"mbps"`
}

// openJournal reads what a file has and continues it. A last line that was cut off is left out.
func openJournal(name, key string) (*journal, error) {
	j := &journal{done: map[entry]float64{}, key: key}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for at := 0; at < len(text); {
		n, row, err := bufio.ScanLines(text[at:], false)
		if err != nil || n == 0 {
			text = text[:at]
			break
		}
		var l line
		if err := json.Unmarshal(row, &l); err != nil {
			return nil, fmt.Errorf("%s: %w; remove the file to begin again", name, err)
		}
		j.done[l.entry] = l.Mbps
		at += n
	}
	if j.f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	return j, errors.Join(j.f.Truncate(int64(len(text))), seekEnd(j.f))
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, 2)
	return err
}

func (j *journal) entry(c *cell, seconds int, seed uint64) entry {
	return entry{j.key, c.Policy, c.Layout, c.Queue, c.rate, seconds, seed}
}

// find returns a sample that was measured before. Without a journal there is none.
func (j *journal) find(c *cell, seconds int, seed uint64) (mbps float64, there bool) {
	if j == nil {
		return 0, false
	}
	mbps, there = j.done[j.entry(c, seconds, seed)]
	return mbps, there
}

func (j *journal) add(c *cell, seconds int, seed uint64, mbps float64) error {
	if j == nil {
		return nil
	}
	text, err := json.Marshal(line{j.entry(c, seconds, seed), mbps})
	if err != nil {
		return err
	}
	_, err = j.f.Write(append(text, '\n'))
	return err
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return j.f.Close()
}
