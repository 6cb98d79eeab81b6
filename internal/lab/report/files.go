// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// writeFiles writes results.json, which is r, and other files to dir, and makes that.
func writeFiles(dir string, r any, others map[string][]byte) error {
	results, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, ResultsFile), append(results, '\n'), 0o644); err != nil {
		return err
	}
	for name, data := range others {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
