//! The exponential, for one double and for the sum of two.
//!
//! `eˣ = 2^(k/128) eʳ`, with `k` the nearest integer to `128 x / ln 2`: the power of two comes from a table, the rest
//! from a short polynomial (Tang 1989, "Table-driven implementation of the exponential function in IEEE floating-point
//! arithmetic"). No operation is fused, so that every target computes the same bits. A generator of native code may
//! write [`exp()`](super::exp()) out, operation by operation; what it takes for that is public here.

/// `128 / ln 2`.
pub const STEPS_PER_UNIT: f64 = 184.6649652337873;

/// `ln 2 / 128` in two parts. The first has so few bits that its product with any `k` that occurs is exact.
pub const STEP: [f64; 2] = [0.005415212347998022, 1.2655086083325438e-13];

/// Chebyshev interpolation of `(eʳ - 1 - r) / r²` on `|r| ≤ ln 2 / 256`. The error it causes in `eʳ` is below 2⁻⁶³.
pub const POLYNOMIAL: [f64; 4] = [0.4999999999999907, 0.16666666666666533, 0.041666676850831016, 0.008333334788213917];

/// Adding and subtracting it rounds to an integer; in between, that integer is in the low bits of the sum.
pub const ROUND_TO_INTEGER: f64 = 6_755_399_441_055_744.0;

/// For arguments that are smaller, of either sign, `2^(k/128)` and the result are normal.
pub const ORDINARY_BOUND: f64 = 512.0;

/// Powers of two in an octave.
pub const POWERS_LEN: u64 = 128;
/// `k`, shifted by so many bits, is a power of two's exponent; see [`POWERS`].
pub const EXPONENT_SHIFT: u32 = 45;

/// `eˣ`; see [`super::exp()`].
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    // NaN is not in this range.
    if x.abs() < ORDINARY_BOUND { ordinary(x, 0.0) } else { exp_at_edges(x) }
}

/// `eˣ` at and beyond overflow and underflow, and for NaN.
#[cold]
fn exp_at_edges(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x >= 1024.0 {
        f64::INFINITY
    } else if x <= -1024.0 {
        0.0
    } else {
        scaled(x, 0.0)
    }
}

/// `e^(high + low)` for a `low` that is small beside `high`.
#[inline(always)]
pub(super) fn exp_of_sum(high: f64, low: f64) -> f64 {
    if high.abs() < ORDINARY_BOUND { ordinary(high, low) } else { exp_of_sum_at_edges(high, low) }
}

/// [`exp_of_sum`] at and beyond overflow and underflow.
#[cold]
fn exp_of_sum_at_edges(high: f64, low: f64) -> f64 {
    if high.abs() < 1024.0 { scaled(high, low) } else { exp_at_edges(high) }
}

/// The bits of a double that end in `k`, and `eʳ - 1`.
#[inline(always)]
fn reduce(high: f64, low: f64) -> (u64, f64) {
    let shifted = STEPS_PER_UNIT * high + ROUND_TO_INTEGER;
    let k = shifted - ROUND_TO_INTEGER;
    let r = ((high - k * STEP[0]) - k * STEP[1]) + low;
    let [c2, c3, c4, c5] = POLYNOMIAL;
    let r2 = r * r;
    (shifted.to_bits(), r + r2 * (c2 + r * c3) + (r2 * r2) * (c4 + r * c5))
}

/// The bits of `2^(k/128)` and its relative correction; the exponent wraps around where the power is out of range.
#[inline(always)]
fn power_of_two(k: u64) -> (u64, f64) {
    let [bits, correction] = POWERS[(k % POWERS_LEN) as usize];
    // The table's bits are less the fraction of `k` in the exponent's place, so that all of `k` can be added.
    (bits.wrapping_add(k << EXPONENT_SHIFT), f64::from_bits(correction))
}

/// `e^(high + low)` where neither the power of two nor the result is out of range. Without `low`, the sum with it is
/// left out: a zero's sign is all that it changes, and the next sum loses that.
#[inline(always)]
fn ordinary(high: f64, low: f64) -> f64 {
    let (k, rest) = reduce(high, low);
    let (bits, correction) = power_of_two(k);
    let scale = f64::from_bits(bits);
    scale + scale * (correction + rest)
}

/// [`ordinary`] for `|high| < 1024`, where the power of two can be out of range.
fn scaled(high: f64, low: f64) -> f64 {
    let (k, rest) = reduce(high, low);
    let (bits, correction) = power_of_two(k);
    let rest = correction + rest;
    if high > 0.0 {
        let scale = f64::from_bits(bits.wrapping_sub(1009 << 52));
        return f64::from_bits((1023 + 1009) << 52) * (scale + scale * rest);
    }
    let scale = f64::from_bits(bits.wrapping_add(1022 << 52));
    let mut result = scale + scale * rest;
    if result < 1.0 {
        // The result is subnormal: round it once, at the place of its last bit, by way of 1 + result.
        let error = (scale - result) + scale * rest;
        let sum = 1.0 + result;
        let sum_error = ((1.0 - sum) + result) + error;
        result = (sum + sum_error) - 1.0;
    }
    f64::MIN_POSITIVE * result
}

/// For `i` of 128, the bits of `2^(i/128)` less `i · 2⁴⁵`, and those of the relative error of that double.
pub static POWERS: [[u64; 2]; POWERS_LEN as usize] = {
    let mut powers = [[0; 2]; POWERS_LEN as usize];
    let mut i = 0;
    while i < powers.len() {
        powers[i] = [POWERS_AND_ERRORS[i].0, POWERS_AND_ERRORS[i].1.to_bits()];
        i += 1;
    }
    powers
};

#[rustfmt::skip]
const POWERS_AND_ERRORS: [(u64, f64); POWERS_LEN as usize] = [
    (0x3ff0_0000_0000_0000, 0.0),
    (0x3fef_f63d_a9fb_3335, 9.447885451727066e-17),
    (0x3fef_ec9a_3e77_8061, -1.507066976926039e-17),
    (0x3fef_e315_e86e_7f85, -5.679155082825012e-17),
    (0x3fef_d9b0_d315_8574, 4.9997448722726326e-17),
    (0x3fef_d06b_29dd_f6de, -4.823683599994895e-17),
    (0x3fef_c745_1875_9bc8, 7.357846871247418e-18),
    (0x3fef_be3e_cac6_f383, 5.773230223741951e-17),
    (0x3fef_b558_6cf9_890f, 8.189317638195515e-17),
    (0x3fef_ac92_2b72_47f7, 5.326891139980878e-17),
    (0x3fef_a3ec_32d3_d1a2, 1.6665881442326747e-18),
    (0x3fef_9b66_affe_d31b, -1.128113245461828e-17),
    (0x3fef_9301_d012_5b51, -7.402825309426177e-17),
    (0x3fef_8abd_c06c_31cc, -3.578659767309563e-18),
    (0x3fef_829a_aea9_2de0, -6.170654745608695e-17),
    (0x3fef_7a98_c8a5_8e51, 2.919139999949279e-17),
    (0x3fef_72b8_3c7d_517b, -2.7939114859515733e-17),
    (0x3fef_6af9_388c_8dea, -5.399285355184285e-17),
    (0x3fef_635b_eb6f_cb75, 4.776959425256223e-17),
    (0x3fef_5be0_8404_5cd4, -7.927701432338473e-17),
    (0x3fef_5487_3168_b9aa, 9.341710609905046e-17),
    (0x3fef_4d50_22fc_d91d, -5.534520675707472e-17),
    (0x3fef_463b_8862_8cd6, 4.585670326662351e-17),
    (0x3fef_3f49_917d_dc96, 2.8582430411116143e-17),
    (0x3fef_387a_6e75_6238, 7.826573258636076e-17),
    (0x3fef_31ce_4fb2_a63f, 4.053626906769216e-17),
    (0x3fef_2b45_65e2_7cdd, 2.823784425951061e-17),
    (0x3fef_24df_e1f5_6381, -7.882802262487991e-17),
    (0x3fef_1e9d_f51f_dee1, 3.2904726646008416e-17),
    (0x3fef_187f_d0da_d990, -1.5792094703347882e-18),
    (0x3fef_1285_a6e4_030b, 4.721368121170128e-17),
    (0x3fef_0caf_a93e_2f56, 1.3045277096919659e-17),
    (0x3fef_06fe_0a31_b715, 3.3484623336251524e-17),
    (0x3fef_0170_fc4c_d831, 3.8611199774925664e-17),
    (0x3fee_fc08_b264_16ff, 5.527550048505249e-17),
    (0x3fee_f6c5_5f92_9ff1, -3.927184172445234e-17),
    (0x3fee_f1a7_373a_a9cb, -6.346552106729483e-17),
    (0x3fee_ecae_6d05_d866, -8.684417614865944e-17),
    (0x3fee_e7db_34e5_9ff7, -1.5456342819397733e-17),
    (0x3fee_e32d_c313_a8e5, -8.70763476495455e-17),
    (0x3fee_dea6_4c12_3422, 3.750854201303127e-17),
    (0x3fee_da45_04ac_801c, -6.616854503526488e-17),
    (0x3fee_d60a_21f7_2e2a, -5.346099009198751e-18),
    (0x3fee_d1f5_d950_a897, -2.443726321015018e-17),
    (0x3fee_ce08_6061_892d, 2.1023049675215714e-18),
    (0x3fee_ca41_ed1d_0057, 7.771067937501065e-17),
    (0x3fee_c6a2_b5c1_3cd0, 1.3357510088834541e-17),
    (0x3fee_c32a_f0d7_d3de, 6.938291696959204e-17),
    (0x3fee_bfda_d536_2a27, 1.9572585293112036e-17),
    (0x3fee_bcb2_99fd_dd0d, 6.632256961675804e-17),
    (0x3fee_b9b2_769d_2ca7, -5.478069123926778e-17),
    (0x3fee_b6da_a2cf_6642, -4.140839310392624e-17),
    (0x3fee_b42b_569d_4f82, -2.1571477251208752e-17),
    (0x3fee_b1a4_ca5d_920f, -3.8287766552120535e-17),
    (0x3fee_af47_36b5_27da, 6.663804589232195e-17),
    (0x3fee_ad12_d497_c7fd, 2.3936187400285282e-17),
    (0x3fee_ab07_dd48_5429, 5.68648095791174e-17),
    (0x3fee_a926_8a59_46b7, 1.1264523354521684e-18),
    (0x3fee_a76f_15ad_2148, 7.007875046906994e-17),
    (0x3fee_a5e1_b976_dc09, -5.0119214278381254e-17),
    (0x3fee_a47e_b03a_5585, -4.8923067513522756e-17),
    (0x3fee_a346_34cc_c320, -3.5260089953269434e-17),
    (0x3fee_a238_8255_2225, -6.872303720902018e-17),
    (0x3fee_a155_d44c_a973, 5.001446664133532e-18),
    (0x3fee_a09e_667f_3bcd, -6.835808657661922e-17),
    (0x3fee_a012_750b_dabf, -1.1307344092910212e-17),
    (0x3fee_9fb2_3c65_1a2f, -8.416011634717156e-18),
    (0x3fee_9f7d_f951_9484, -2.9247977035436566e-17),
    (0x3fee_9f75_e8ec_5f74, -2.092304381843353e-17),
    (0x3fee_9f9a_48a5_8174, -3.9778645875427124e-17),
    (0x3fee_9feb_5642_67c9, -3.833464968654295e-17),
    (0x3fee_a069_4fde_5d3f, 5.763611164480894e-17),
    (0x3fee_a114_73eb_0187, -2.3591094770850053e-17),
    (0x3fee_a1ed_0130_c132, 7.260074661098575e-17),
    (0x3fee_a2f3_36cf_4e62, 9.50689710108796e-18),
    (0x3fee_a427_543e_1a12, -4.272956133839906e-17),
    (0x3fee_a589_994c_ce13, -6.735219232374683e-17),
    (0x3fee_a71a_4623_c7ad, -2.8396044410430936e-17),
    (0x3fee_a8d9_9b44_92ed, -7.226635472101257e-17),
    (0x3fee_aac7_d98a_6699, 5.786121003395918e-17),
    (0x3fee_ace5_422a_a0db, 5.1548301170786783e-17),
    (0x3fee_af32_16b5_448c, -9.416257568878152e-18),
    (0x3fee_b1ae_9915_7736, 2.4253985766689806e-17),
    (0x3fee_b45b_0b91_ffc6, -6.604314051707707e-17),
    (0x3fee_b737_b0cd_c5e5, -6.432131775424189e-18),
    (0x3fee_ba44_cbc8_520f, -1.2204007601863921e-17),
    (0x3fee_bd82_9fde_4e50, -6.336161863401293e-17),
    (0x3fee_c0f1_70ca_07ba, -3.7800879246373815e-17),
    (0x3fee_c491_82a3_f090, 1.5341410053603723e-17),
    (0x3fee_c863_19e3_2323, 1.2932855580427452e-17),
    (0x3fee_cc66_7b5d_e565, -4.123367330661149e-17),
    (0x3fee_d09b_ec4a_2d33, 4.703083974463456e-17),
    (0x3fee_d503_b23e_255d, -6.152602891550265e-17),
    (0x3fee_d99e_1330_b358, 5.827849326195279e-17),
    (0x3fee_de6b_5579_fdbf, 3.540948262646183e-17),
    (0x3fee_e36b_bfd3_f37a, -3.2741571320938764e-17),
    (0x3fee_e89f_995a_d3ad, 4.875160526227062e-17),
    (0x3fee_ee07_298d_b666, -5.718569790077838e-17),
    (0x3fee_f3a2_b84f_15fb, -4.719539664590972e-18),
    (0x3fee_f972_8de5_593a, -5.773451958805706e-17),
    (0x3fee_ff76_f2fb_5e47, -1.0772487078934056e-17),
    (0x3fef_05b0_30a1_064a, -6.221808618533911e-17),
    (0x3fef_0c1e_904b_c1d2, 1.821405440362259e-17),
    (0x3fef_12c2_5bd7_1e09, -6.155536546227639e-17),
    (0x3fef_199b_dd85_529c, 1.685487290628973e-17),
    (0x3fef_20ab_5fff_d07a, 5.3581249177694816e-17),
    (0x3fef_27f1_2e57_d14b, 3.621615935336894e-17),
    (0x3fef_2f6d_9406_e7b5, 8.588379527574144e-18),
    (0x3fef_3720_dcef_9069, 1.01562190116415e-17),
    (0x3fef_3f0b_555d_c3fa, -2.869134889187244e-17),
    (0x3fef_472d_4a07_897c, -5.495118966122005e-17),
    (0x3fef_4f87_080d_89f2, -5.56965572431627e-17),
    (0x3fef_5818_dcfb_a487, 1.790126907604513e-17),
    (0x3fef_60e3_16c9_8398, -3.2211766346200164e-17),
    (0x3fef_69e6_03db_3285, 5.265370768556274e-17),
    (0x3fef_7321_f301_b460, 3.5089866402403033e-17),
    (0x3fef_7c97_337b_9b5f, -3.266924100901318e-17),
    (0x3fef_8646_14f5_a129, -4.3657593008079375e-17),
    (0x3fef_902e_e78b_3ff6, 1.7963932659833022e-17),
    (0x3fef_9a51_fbc7_4c83, 3.4300925275214166e-17),
    (0x3fef_a4af_a2a4_90da, -5.545065618639427e-17),
    (0x3fef_af48_2d8e_67f1, -5.149009745457733e-17),
    (0x3fef_ba1b_ee61_5a27, 5.336805878514151e-17),
    (0x3fef_c52b_376b_ba97, 3.498978661192973e-17),
    (0x3fef_d076_5b6e_4540, 4.5784915277060095e-17),
    (0x3fef_dbfd_ad9c_be14, -5.241934575393899e-17),
    (0x3fef_e7c1_819e_90d8, 2.0414278897578303e-17),
    (0x3fef_f3c2_2b8f_71f1, 4.124842848606488e-18),
];
