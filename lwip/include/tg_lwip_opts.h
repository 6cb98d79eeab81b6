/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the SYN-flood defence for lwIP. Every option has a default here;
 * set your own in lwipopts.h (or on the compiler's command line), as with
 * lwIP's own. A value that cannot work is an error at compile time.
 */
#ifndef TG_LWIP_OPTS_H
#define TG_LWIP_OPTS_H

#include "lwip/opt.h"

/*
   ---------------------------------------
   ---------- What happens to SYNs -------
   ---------------------------------------
*/

/** lwIP's own behaviour: a SYN that finds the queue full is lost. */
#define TG_LWIP_POLICY_DROP 0
/** A SYN that finds the queue full takes the place of the oldest half-open
 *  connection. Costs time in proportion to the queue. */
#define TG_LWIP_POLICY_RECYCLE_OLDEST 1
/** A SYN that finds the queue full is answered with a cookie and not stored. */
#define TG_LWIP_POLICY_COOKIES 2
/** Every SYN is answered with a cookie; there are no half-open connections. */
#define TG_LWIP_POLICY_COOKIES_ALWAYS 3

/**
 * TG_LWIP_POLICY: one of the four above. The queue is full when a listener has
 * as many connections that are half-open or not yet accepted as its backlog
 * allows (with TCP_LISTEN_BACKLOG), or when no TCP PCB is free.
 */
#if !defined TG_LWIP_POLICY || defined __DOXYGEN__
#define TG_LWIP_POLICY TG_LWIP_POLICY_COOKIES
#endif

/*
   ---------------------------------------
   ---------- Cookies --------------------
   ---------------------------------------
*/

/** time 5 bits (64 s), MSS 3, hash 24; good for 64 to 128 s; keeps the MSS */
#define TG_LWIP_LAYOUT_CLASSIC 1 /* 0 is what the preprocessor takes a misspelt name for */
/** Linux: minutes, two hashes, MSS 2 bits; good for 1 to 2 minutes; keeps the MSS */
#define TG_LWIP_LAYOUT_LINUX 2
/** FreeBSD: hash 24 bits; good for 15 to 30 s; keeps MSS, window scale, SACK */
#define TG_LWIP_LAYOUT_FREEBSD 3
/** Linux' arithmetic in seconds; good for 1 to 2 s; keeps the MSS */
#define TG_LWIP_LAYOUT_HYBRID 4
/** core/cookie.h without timestamps; good for 8 to 16 s; keeps all options */
#define TG_LWIP_LAYOUT_TIDEGATE 5

/**
 * TG_LWIP_LAYOUT: one of the five above. TCP timestamps, if lwIP has them
 * switched on, are kept with every layout: the client's ACK shows them.
 */
#if !defined TG_LWIP_LAYOUT || defined __DOXYGEN__
#define TG_LWIP_LAYOUT TG_LWIP_LAYOUT_HYBRID
#endif

/**
 * TG_LWIP_LINUX_SHA1==1: the linux layout hashes with SHA-1, as Linux did up to
 * 4.12, and not with SipHash. For comparison; it is the slowest choice.
 */
#if !defined TG_LWIP_LINUX_SHA1 || defined __DOXYGEN__
#define TG_LWIP_LINUX_SHA1 0
#endif

/**
 * TG_LWIP_HYBRID_MAX_AGE: a hybrid cookie is good in the second in which it was
 * made and in so many less one after it. Raise it for clients whose round trip
 * takes longer than a second; each further second is one more chance for a
 * replay and for a forger.
 */
#if !defined TG_LWIP_HYBRID_MAX_AGE || defined __DOXYGEN__
#define TG_LWIP_HYBRID_MAX_AGE 2
#endif

/**
 * TG_LWIP_TIDEGATE_EPOCH_S: seconds for which one key of the tidegate layout
 * makes cookies; it verifies them for as long again.
 */
#if !defined TG_LWIP_TIDEGATE_EPOCH_S || defined __DOXYGEN__
#define TG_LWIP_TIDEGATE_EPOCH_S 8
#endif

/*
   ---------------------------------------
   ---------- The rest -------------------
   ---------------------------------------
*/

/**
 * TG_LWIP_ISN==1: initial sequence numbers of connections that no cookie made
 * come from RFC 6528 (LWIP_HOOK_TCP_ISN), since lwIP's own can be guessed, and
 * with them the answer to a SYN that went into the queue. Set to 0 if you bring
 * your own hook.
 */
#if !defined TG_LWIP_ISN || defined __DOXYGEN__
#define TG_LWIP_ISN 1
#endif

/**
 * TG_LWIP_STATS==1: count what was done, in tg_lwip_stats.
 */
#if !defined TG_LWIP_STATS || defined __DOXYGEN__
#define TG_LWIP_STATS 0
#endif

/**
 * TG_LWIP_PBUF_TYPE: where the pbuf of a SYN-ACK comes from: PBUF_RAM as for
 * lwIP's own segments, or PBUF_POOL.
 */
#if !defined TG_LWIP_PBUF_TYPE || defined __DOXYGEN__
#define TG_LWIP_PBUF_TYPE PBUF_RAM
#endif

/*
   ---------------------------------------
   ---------- Checks ---------------------
   ---------------------------------------
*/

#if !LWIP_TCP
#error "the SYN-flood defence needs LWIP_TCP"
#endif
#if TG_LWIP_POLICY < TG_LWIP_POLICY_DROP || TG_LWIP_POLICY > TG_LWIP_POLICY_COOKIES_ALWAYS
#error "TG_LWIP_POLICY must be one of TG_LWIP_POLICY_DROP, _RECYCLE_OLDEST, _COOKIES, _COOKIES_ALWAYS"
#endif
#if TG_LWIP_LAYOUT < TG_LWIP_LAYOUT_CLASSIC || TG_LWIP_LAYOUT > TG_LWIP_LAYOUT_TIDEGATE
#error "TG_LWIP_LAYOUT must be one of TG_LWIP_LAYOUT_CLASSIC, _LINUX, _FREEBSD, _HYBRID, _TIDEGATE"
#endif
#if TG_LWIP_LINUX_SHA1 && TG_LWIP_LAYOUT != TG_LWIP_LAYOUT_LINUX
#error "TG_LWIP_LINUX_SHA1 goes with TG_LWIP_LAYOUT_LINUX only"
#endif
#if TG_LWIP_HYBRID_MAX_AGE < 2 || TG_LWIP_HYBRID_MAX_AGE > 64
#error "TG_LWIP_HYBRID_MAX_AGE must be 2 to 64: below, a cookie can be stale at once; above, it is no longer a matter of seconds"
#endif
#if TG_LWIP_TIDEGATE_EPOCH_S < 2 || TG_LWIP_TIDEGATE_EPOCH_S > 60
#error "TG_LWIP_TIDEGATE_EPOCH_S must be 2 to 60 seconds"
#endif
#if TG_LWIP_POLICY != TG_LWIP_POLICY_DROP && !TCP_LISTEN_BACKLOG && MEMP_MEM_MALLOC
#error "without TCP_LISTEN_BACKLOG the queue is full when MEMP_TCP_PCB is empty, which MEMP_MEM_MALLOC cannot tell"
#endif

#endif
