// SPDX-License-Identifier: Apache-2.0

// Package web serves one page that shows an instance live. It must only read: no request changes anything, and
// the page shows only what internal/live provides.
package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"tidegate/internal/live"
)

//go:embed page.html
var page []byte

// Bounds.
const (
	headerMax   = 16 << 10
	requestTime = 10 * time.Second
	connMax     = 64
)

// Serve serves until ctx ends. allowed are names besides addresses under which browsers may request it: a foreign page that
// resolves its own name to this address (DNS rebinding) gets nothing.
func Serve(ctx context.Context, l net.Listener, feed *live.Feed, allowed []string) error {
	s := &http.Server{Handler: Handler(feed, allowed), ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: time.Minute, MaxHeaderBytes: headerMax}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		end, cut := context.WithTimeout(context.Background(), time.Second)
		defer cut()
		if s.Shutdown(end) != nil {
			s.Close()
		}
	}()
	err := s.Serve(netutil.LimitListener(l, connMax))
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}

// Handler answers: the page, and what it draws.
func Handler(feed *live.Feed, allowed []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /view", func(w http.ResponseWriter, r *http.Request) {
		v := feed.View()
		if after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64); err == nil {
			i := len(v.Points)
			for i > 0 && v.Points[i-1].Time.UnixMilli() > after {
				i--
			}
			v.Points = v.Points[i:]
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client may have gone
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(r.Host, allowed) {
			http.Error(w, fmt.Sprintf("the name %q is not known here; ask by address, or start with --name", r.Host), http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// known reports whether a request names an address, localhost or one of the allowed names.
func known(host string, allowed []string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(trimBrackets(host)); err == nil || host == "localhost" {
		return true
	}
	for _, name := range allowed {
		if host == name {
			return true
		}
	}
	return false
}

func trimBrackets(s string) string {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1]
	}
	return s
}
