// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"log/slog"
	"os"
)

// Attached is a packet path whose start is not committed: closed now, it leaves everything as before.
type Attached interface{ Commit() error }

// Settle commits a start, when nothing is left of it that could fail: what is attached stays, and
// the state file is written.
func Settle(opt Options, s State, log *slog.Logger, planes ...Attached) error {
	return SettleFile(s.file(), StatePath(opt.StateDir, s.Config.Instance), log, planes...)
}

// SettleFile does so with the contents of a state file.
func SettleFile(s *StateFile, path string, log *slog.Logger, planes ...Attached) error {
	s.Run = thisRun
	fresh, err := s.writeBeside(path)
	if err != nil {
		return err
	}
	for _, p := range planes {
		if err := p.Commit(); err != nil {
			_ = os.Remove(fresh)
			return err
		}
	}
	if err := os.Rename(fresh, path); err != nil { // protection continues
		log.Error("the state file could not be written; `tidegate status` shows the previous start", "error", err)
	}
	return nil
}
