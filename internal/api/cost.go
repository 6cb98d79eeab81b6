// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/status"
)

// costKept is how long the kernel keeps counting after the last request: a client that asks once a second keeps it on.
const costKept = 5 * time.Second

// costs counts what the packet path costs, while clients ask for it.
type costs struct {
	mu    sync.Mutex
	count io.Closer
	stop  *time.Timer
}

// want keeps the kernel counting for costKept.
func (c *costs) want() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count != nil {
		c.stop.Reset(costKept)
		return nil
	}
	count, err := plane.CountCosts()
	if err != nil {
		return err
	}
	c.count, c.stop = count, time.AfterFunc(costKept, c.end)
	return nil
}

func (c *costs) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count != nil {
		c.stop.Stop()
		c.count.Close()
		c.count = nil
	}
}

func (s *Server) cost(w http.ResponseWriter, _ *http.Request) {
	r, err := s.reading()
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	if st, ok := r.(*status.Status); !ok || st.DPDK != nil || st.P4 != nil {
		refuse(w, http.StatusConflict, fmt.Errorf("the packet path of instance %q is not in the kernel, which counts nothing of it", s.name))
		return
	}
	if err := s.costs.want(); err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	list, err := plane.Costs(s.opt.BPFFS, s.name)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, orEmpty(list))
}
