// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"io"
	"log/slog"

	"tidegate/internal/plane"
	"tidegate/internal/role/patrol"
)

// benchPatrol creates the real tables of a patrol, in the kernel's maps.
func benchPatrol(filters int) (*patrol.Filters, func(), error) {
	p, err := plane.LoadPatrol(plane.PatrolOptions{Buckets: patrol.BucketsFor(filters), Codepoint: 47})
	if err != nil {
		return nil, nil, err
	}
	f, err := patrol.NewFilters(p, 47, 0)
	if err != nil {
		p.Close()
		return nil, nil, err
	}
	return f, p.Close, nil
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
