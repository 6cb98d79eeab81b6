// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// File writes one line of JSON for each event to a file, or to stdout. If the file was moved away (logrotate)
// it makes a new one.
type File struct{ path string }

// NewFile writes to path; "-" is stdout.
func NewFile(path string) *File { return &File{path} }

// Name is the taker's name.
func (f *File) Name() string { return "file " + f.path }

// lastLineMax bounds the search for the last line.
const lastLineMax = 64 << 10

// resume finds the last event in the file: otherwise a process killed between writing a line and
// saving that it has would write it twice. Half a line is removed.
func (f *File) resume(s *Stream) error {
	if f.path == "-" {
		return nil
	}
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o640) // an impossible path is refused at the start
	}
	if err != nil {
		return fmt.Errorf("events.file: %w", err)
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil { // a pipe or a terminal: nothing to resume
		return nil
	}
	from := max(0, size-lastLineMax)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, size-from))
	if err != nil {
		return fmt.Errorf("events.file: %w", err)
	}
	if whole := bytes.LastIndexByte(tail, '\n') + 1; whole < len(tail) && (whole > 0 || from == 0) && tail[whole] == '{' {
		if err := file.Truncate(from + int64(whole)); err != nil {
			return fmt.Errorf("events.file: %w", err)
		}
		tail = tail[:whole]
	}
	for line := range bytes.Lines(tail) { // several instances may share a file
		var e Event
		if json.Unmarshal(line, &e) == nil && e.ID == fmt.Sprintf("%s-%d", s.state.Generation, e.Seq) {
			s.state.Taken[f.Name()] = max(s.state.Taken[f.Name()], e.Seq)
		}
	}
	return nil
}

// Take appends a line completely or not at all.
func (f *File) Take(_ context.Context, e Event) error {
	line, err := json.Marshal(&e)
	if err != nil {
		return errors.Join(errNever, err)
	}
	line = append(line, '\n')
	if f.path == "-" {
		_, err := os.Stdout.Write(line)
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	before, seekErr := file.Seek(0, io.SeekEnd)
	n, err := file.Write(line)
	if err != nil && n > 0 && seekErr == nil { // a full disk
		err = errors.Join(err, file.Truncate(before))
	}
	return errors.Join(err, file.Close())
}
