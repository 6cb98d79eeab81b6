// SPDX-License-Identifier: Apache-2.0

// Package bugreport packs what a bug report needs into one file, without what must not leave the machine.
//
// It must not know where the parts come from.
package bugreport

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"time"
)

// Part is a file of the bundle.
type Part struct {
	Name string
	// Make returns its text. A failure is reported in the file, so that the rest is still packed.
	Make func() (string, error)
}

// maxPart is how much of a part is kept, in bytes: its end, for logs.
const maxPart = 4 << 20

// Write packs the parts, redacted, as a compressed tar archive with one folder, and returns the names of the
// parts that failed.
func Write(w io.Writer, folder string, at time.Time, parts []Part, r *Redactor) (failed []string, err error) {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, p := range parts {
		text, err := p.Make()
		if err != nil {
			failed = append(failed, p.Name)
			text = strings.TrimLeft(text+"\n", "\n") + "failed: " + err.Error() + "\n"
		}
		if cut := len(text) - maxPart; cut > 0 {
			text = fmt.Sprintf("(%d bytes before this are left out)\n", cut) + text[cut:]
		}
		text = r.Text(text)
		h := &tar.Header{Name: folder + "/" + p.Name, Mode: 0o600, Size: int64(len(text)), ModTime: at, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return failed, err
		}
		if _, err := io.WriteString(t, text); err != nil {
			return failed, err
		}
	}
	if err := t.Close(); err != nil {
		return failed, err
	}
	return failed, z.Close()
}
