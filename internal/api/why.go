// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"tidegate/internal/status"
	"tidegate/internal/why"
)

// clientPort is the source port of a SYN for which none is given.
const clientPort = 40000

// why explains what would happen to a SYN. One at a time: each asks the kernel's verifier for a program.
func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	q, err := whyQuestion(r.URL.Query().Get("src"), r.URL.Query().Get("dst"))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	read, err := s.reading()
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	st, ok := read.(*status.Status)
	if !ok {
		refuse(w, http.StatusConflict, errors.New("this role answers no SYNs"))
		return
	}
	if !s.whyOne.TryLock() {
		refuse(w, http.StatusTooManyRequests, errors.New("another such question is being answered; ask again"))
		return
	}
	defer s.whyOne.Unlock()
	a, err := why.Explain(s.opt, s.of.Config(), st, q)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	answer(w, a)
}

// whyQuestion reads ADDRESS or ADDRESS:PORT, and ADDRESS:PORT or nothing.
func whyQuestion(src, dst string) (q why.Question, err error) {
	if a, err := netip.ParseAddr(src); err == nil {
		q.Src = netip.AddrPortFrom(a.Unmap(), clientPort)
	} else if q.Src, err = netip.ParseAddrPort(src); err != nil {
		return q, fmt.Errorf("src %q: want ADDRESS or ADDRESS:PORT", src)
	}
	q.Src = netip.AddrPortFrom(q.Src.Addr().Unmap().WithZone(""), q.Src.Port())
	if dst == "" {
		return q, nil
	}
	if q.Dst, err = netip.ParseAddrPort(dst); err != nil {
		return q, fmt.Errorf("dst %q: want ADDRESS:PORT", dst)
	}
	q.Dst = netip.AddrPortFrom(q.Dst.Addr().Unmap().WithZone(""), q.Dst.Port())
	return q, nil
}
