/* What the convolution of 8-bit tensors and its bounds have in common. */
#ifndef RLX_CONV_INT8_H
#define RLX_CONV_INT8_H

#include "int8.h"

enum { CONV_INT8_LINES = 16 };

/* Terms of a line of input under a line of output, from the attributes of conv.int8@nhwc (batch groups C OC ldi ldo,
 * three each of in out k stride dilation pad, mc nc work_stride, post); 0 where rows are gathered. */
static inline int64_t rlx_conv_int8_line(const int64_t *a) {
    const int64_t c = a[2], *in = a + 6, *out = a + 9, *k = a + 12, *stride = a + 15, *dilation = a + 18, *pad = a + 21;
    rlx_int8_post post;
    memcpy(&post, a + 27, sizeof post);
    if (post.b_zero_n > 0 || !post.b_signed || in[0] != 1 || out[0] != 1 || k[0] != 1 || pad[0] != 0)
        return 0;
    if (dilation[1] != 1 || dilation[2] != 1 || k[1] < 1 || k[1] > CONV_INT8_LINES || k[2] < 1 || k[1] * k[2] == 1)
        return 0;
    if (c < 1 || k[2] * c % RLX_KG || out[2] < 1)
        return 0;
    return ((out[2] - 1) * stride[2] + k[2]) * c;
}

/* n terms of a line: bytes flipped to unsigned ones, or words less the zero point. */
RLX_ALWAYS_INLINE void rlx_int8_line(rlx_int8_term *dst, const uint8_t *src, int64_t n, int64_t is_signed,
                                     int32_t zero) {
#ifdef __AVX512VNNI__
    const __m512i flip = _mm512_set1_epi8(is_signed ? (char)0x80 : 0);
    for (; n > 0; n -= 64, dst += 64, src += 64) {
        const __mmask64 m = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
        _mm512_mask_storeu_epi8(dst, m, _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, src), flip));
    }
#else
    int64_t i = 0;
#ifdef __AVX2__
    const __m256i z = _mm256_set1_epi16((int16_t)zero);
    for (; i + 16 <= n; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(src + i));
        const __m256i v = is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_sub_epi16(v, z));
    }
#endif
    for (; i < n; i++)
        dst[i] = (rlx_int8_term)((is_signed ? (int8_t)src[i] : src[i]) - zero);
#endif
}

#endif
