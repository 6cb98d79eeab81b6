/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: core/bloom.h in registers. Three partitions of 2^20 positions, each in four
 * generations, 32 positions to a word. A generation's words are contiguous, so that the
 * controller clears one by writing a range. Ingress has one thread in simple_switch, which
 * makes reading, changing and writing a word atomic.
 */
#ifndef TG_P4_V1_BLOOM
#define TG_P4_V1_BLOOM

#include "types.p4"

#define BLOOM_WORDS (1 << (TG_BLOOM_BITS - 5)) /* of a generation's partition */

control Bloom(inout metadata_t m, in bit<32> lo, in bit<32> hi, in bit<1> look,
              in bit<1> put) {
    register<bit<32>>(TG_BLOOM_GENERATIONS * BLOOM_WORDS) part0;
    register<bit<32>>(TG_BLOOM_GENERATIONS * BLOOM_WORDS) part1;
    register<bit<32>>(TG_BLOOM_GENERATIONS * BLOOM_WORDS) part2;
    bit<32> at0;
    bit<32> at1;
    bit<32> at2;
    bit<32> w0;
    bit<32> w1;
    bit<32> w2;

    action locate() {
        at0 = lo & ((1 << TG_BLOOM_BITS) - 1);
        at1 = (lo + hi) & ((1 << TG_BLOOM_BITS) - 1);
        at2 = (lo + hi + hi) & ((1 << TG_BLOOM_BITS) - 1);
    }
    action read(bit<32> generation) {
        part0.read(w0, generation * BLOOM_WORDS + (at0 >> 5));
        part1.read(w1, generation * BLOOM_WORDS + (at1 >> 5));
        part2.read(w2, generation * BLOOM_WORDS + (at2 >> 5));
        w0 = w0 >> (bit<8>)at0[4:0];
        w1 = w1 >> (bit<8>)at1[4:0];
        w2 = w2 >> (bit<8>)at2[4:0];
    }
    action write(bit<32> generation) {
        part0.read(w0, generation * BLOOM_WORDS + (at0 >> 5));
        part1.read(w1, generation * BLOOM_WORDS + (at1 >> 5));
        part2.read(w2, generation * BLOOM_WORDS + (at2 >> 5));
        w0 = w0 | (32w1 << (bit<8>)at0[4:0]);
        w1 = w1 | (32w1 << (bit<8>)at1[4:0]);
        w2 = w2 | (32w1 << (bit<8>)at2[4:0]);
        part0.write(generation * BLOOM_WORDS + (at0 >> 5), w0);
        part1.write(generation * BLOOM_WORDS + (at1 >> 5), w1);
        part2.write(generation * BLOOM_WORDS + (at2 >> 5), w2);
    }
    apply {
        locate();
        if (look == 1) {
            read(0);
            m.known[0:0] = w0[0:0] & w1[0:0] & w2[0:0];
            read(1);
            m.known[1:1] = w0[0:0] & w1[0:0] & w2[0:0];
            read(2);
            m.known[2:2] = w0[0:0] & w1[0:0] & w2[0:0];
            read(3);
            m.known[3:3] = w0[0:0] & w1[0:0] & w2[0:0];
        }
        if (put == 1) {
            write((bit<32>)m.generation);
        }
    }
}

#endif
