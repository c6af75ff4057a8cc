//! The natural logarithm as one double and as the sum of two, and the logarithm to base 2.
//!
//! `ln x = k ln 2 + ln c + ln (z / c)` for `x = 2ᵏ z`: `c` is near `z` and comes from a table with its logarithm, and a
//! short polynomial in `r = z / c - 1` is the rest (Tang 1990, "Table-driven implementation of the logarithm function
//! in IEEE floating-point arithmetic"). `1 / c` has so few bits that `r` is exact, and is 1 around `z = 1`, so that
//! nothing cancels there. No operation is fused, so that every target computes the same bits.

/// `ln 2` in two parts. The first is a multiple of 2⁻⁴², so that its multiples add up exactly with the table's.
const LN_2: [f64; 2] = [0.6931471805598903, 5.497923018708371e-14];

/// Chebyshev interpolation of `(ln (1 + r) - r + r²/2) / r³` on `|r| ≤ 0.00574`. The relative error it causes in
/// `ln (1 + r)` is below 2⁻⁶⁷.
const POLYNOMIAL: [f64; 6] = [
    0.3333333333333335,
    -0.2500000000000001,
    0.19999999993228593,
    -0.16666666660572396,
    0.14286262882072656,
    -0.12500493736999546,
];

/// The bits of the smallest `z`, about 0.7057: `z` is in `[start, 2 start)`, and 1 lies inside of an interval of the
/// table.
const START: u64 = 0x3fe6_9555_0000_0000;

/// `ln x`; see [`super::log()`].
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    if is_ordinary(x) { of_bits(x.to_bits()) } else { log_at_edges(x) }
}

/// Whether `x` is positive, normal and finite.
#[inline(always)]
pub(super) fn is_ordinary(x: f64) -> bool {
    x.to_bits().wrapping_sub(1 << 52) < (0x7ff << 52) - (1 << 52)
}

/// `ln x` for subnormal numbers and special values.
#[cold]
fn log_at_edges(x: f64) -> f64 {
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < 0.0 {
        f64::NAN
    } else if x.is_nan() || x == f64::INFINITY {
        x
    } else {
        of_bits(bits_of_subnormal(x))
    }
}

/// The bits that a positive subnormal number would have if exponents went below their range.
pub(super) fn bits_of_subnormal(x: f64) -> u64 {
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    (x * TWO_52).to_bits().wrapping_sub(52 << 52)
}

struct Reduced {
    /// `k ln 2 + ln c`, its exact leading part and the rest.
    base: [f64; 2],
    /// The leading bits of `z / c - 1`: few enough that its square is exact.
    r_high: f64,
    /// The rest of `z / c - 1`.
    r_low: f64,
}

/// `k` of the bits less [`START`]. The bits of 1.5 · 2⁵² are where integers are doubles: the conversion instruction of
/// x86-64 would wait for what was in its target register before, which may be the result of the last call.
#[inline(always)]
fn exponent(offset: u64) -> f64 {
    const INTEGERS: f64 = 6_755_399_441_055_744.0;
    f64::from_bits(INTEGERS.to_bits().wrapping_add_signed((offset as i64) >> 52)) - INTEGERS
}

#[inline(always)]
fn reduce(bits: u64) -> Reduced {
    let offset = bits.wrapping_sub(START);
    let [inverse, log_high, log_low, _] = TABLE[((offset >> 45) % 128) as usize];
    let k = exponent(offset);
    let z_bits = bits.wrapping_sub(offset & (0xfff << 52));
    let z_high = f64::from_bits(z_bits & !0xffff_ffff);
    let z_low = f64::from_bits(z_bits) - z_high;
    Reduced {
        base: [k * LN_2[0] + log_high, k * LN_2[1] + log_low],
        r_high: z_high * inverse - 1.0,
        r_low: z_low * inverse,
    }
}

/// The terms of `ln (1 + r)` from the third on, divided by `r³`. [`of_bits`] adds them up in an order that is shorter.
#[inline(always)]
fn tail(r: f64, r2: f64) -> f64 {
    let [c3, c4, c5, c6, c7, c8] = POLYNOMIAL;
    (c3 + r * c4) + r2 * ((c5 + r * c6) + r2 * (c7 + r * c8))
}

#[inline(always)]
fn of_bits(bits: u64) -> f64 {
    let Reduced { base, r_high, r_low } = reduce(bits);
    let r = r_high + r_low;
    let r2 = r * r;
    let [c3, c4, c5, c6, c7, c8] = POLYNOMIAL;
    let tail = ((c3 + r * c4) + r2 * (c5 + r * c6)) + (r2 * r2) * (c7 + r * c8);
    let high = base[0] + r;
    let low = ((base[0] - high) + r) + base[1];
    high + ((low - 0.5 * r2) + (r * r2) * tail)
}

/// `ln x` as a sum with a relative error below 2⁻⁶⁷, for the bits of a positive number, normal or from
/// [`bits_of_subnormal`].
#[inline(always)]
pub(super) fn log_as_sum(bits: u64) -> [f64; 2] {
    let Reduced { base, r_high, r_low } = reduce(bits);
    let r = r_high + r_low;
    let r2 = r * r;
    // -r²/2 = -r_high²/2 - r_low (r + r_high)/2, the first exact.
    let half_square = -0.5 * (r_high * r_high);
    let first = base[0] + r;
    let first_error = (base[0] - first) + r;
    let second = first + half_square;
    let second_error = (first - second) + half_square;
    let low = ((base[1] + first_error) - 0.5 * (r_low * (r + r_high))) + second_error + (r * r2) * tail(r, r2);
    let high = second + low;
    [high, (second - high) + low]
}

/// `1 / ln 2` in three parts. The first two have 26 bits, so that a product with another half of a double is exact.
const INVERSE_LN_2: [f64; 3] = [1.4426950216293335, 1.92596298909109e-08, 2.0355273740931033e-17];

/// [`POLYNOMIAL`] for the logarithm to base 2, with the term in `r²`: `-1/(2 ln 2)`, then Chebyshev interpolation of
/// `(log₂ (1 + r) - (r - r²/2)/ln 2) / r³`. The relative error it causes in `log₂ (1 + r)` is below 2⁻⁶³.
const LOG2_POLYNOMIAL: [f64; 7] = [
    -0.7213475204444817,
    0.480898346962988,
    -0.360673760222241,
    0.288539008079907,
    -0.24044917339339675,
    0.20610721401901666,
    -0.18034401033223027,
];

/// `log₂ x`; see [`super::log2()`].
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    if is_ordinary(x) { log2_of_bits(x.to_bits()) } else { log2_at_edges(x) }
}

/// `log₂ x` for subnormal numbers and special values.
#[cold]
fn log2_at_edges(x: f64) -> f64 {
    if x > 0.0 && x < f64::INFINITY { log2_of_bits(bits_of_subnormal(x)) } else { log_at_edges(x) }
}

#[inline(always)]
fn log2_of_bits(bits: u64) -> f64 {
    let offset = bits.wrapping_sub(START);
    let [inverse, c, log_high, log_low, factor_low] = LOG2_TABLE[((offset >> 45) % 128) as usize];
    let k = exponent(offset);
    let z = f64::from_bits(bits.wrapping_sub(offset & (0xfff << 52)));
    // Exact: the difference has at most 46 bits, the inverse 8, and the product ends at the bit 2⁻⁶⁰.
    let r = (z - c) * inverse;
    let r2 = r * r;
    let [c2, c3, c4, c5, c6, c7, c8] = LOG2_POLYNOMIAL;
    let tail = ((c3 + r * c4) + r2 * (c5 + r * c6)) + (r2 * r2) * (c7 + r * c8);
    // r / ln 2, its exact leading part and the rest.
    let r_upper = upper_half(r);
    let first = r_upper * INVERSE_LN_2[0];
    let first_low = (r - r_upper) * INVERSE_LN_2[0] + r * factor_low;
    let base = k + log_high;
    let high = base + first;
    let error = (base - high) + first;
    high + (error + (((log_low + first_low) + c2 * r2) + (r * r2) * tail))
}

/// A double's leading 26 bits.
const fn upper_half(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !0x7ff_ffff)
}

/// For each interval of `z`, what [`log2_of_bits`] needs, computed from [`TABLE`]: `1/c` as there; `c` as a double;
/// `log₂ c` in two parts, the first a multiple of 2⁻⁴², so that it adds up exactly with any `k`; and what is left of
/// `1 / ln 2` without its leading part.
///
/// The double nearest to `c` is `c (1 + δ)`, and what is subtracted from `z`. With `s = (z - c (1 + δ)) / c`,
/// `ln (z / c) = ln (1 + s + δ)`, which is `ln (1 + s) + δ - δ s` but for terms in `δ²` and `δ s²`: one δ goes into
/// `log₂ c`, the other into the factor.
static LOG2_TABLE: [[f64; 5]; 128] = {
    /// Adding and subtracting it rounds to a multiple of 2⁻⁴².
    const ROUND: f64 = 1536.0;
    let [i0, i1, i2] = INVERSE_LN_2;
    let mut table = [[0.0; 5]; 128];
    let mut n = 0;
    while n < 128 {
        let [inverse, log_high, log_low, _] = TABLE[n];
        let c = 1.0 / inverse;
        let delta = (upper_half(c) * inverse - 1.0) + (c - upper_half(c)) * inverse;
        let upper = upper_half(log_high);
        let lower = log_high - upper;
        let small = lower * i1 + (log_high * i2 + log_low * (i0 + i1));
        let products = [upper * i0, lower * i0, upper * i1];
        let high = ((products[0] + (products[1] + (products[2] + small))) + ROUND) - ROUND;
        let low = (((products[0] - high) + products[1]) + products[2]) + small;
        table[n] = [inverse, c, high, low + delta * i0, (i1 + i2) - delta * i0];
        n += 1;
    }
    table
};

/// For each interval of `z`, `1/c` and `ln c` in two parts, the first a multiple of 2⁻⁴³. The zero rounds an
/// entry up to 32 bytes, which are quicker to index.
#[rustfmt::skip]
static TABLE: [[f64; 4]; 128] = [
    [1.4140625, -0.3464667673462145, 5.929407345889625e-15, 0.0],
    [1.40625, -0.34092658697056777, -2.544157440035963e-14, 0.0],
    [1.3984375, -0.3353555419211034, -3.443525940775045e-14, 0.0],
    [1.390625, -0.3297532863724655, -2.500123826022799e-15, 0.0],
    [1.3828125, -0.32411946865420305, -8.929337133850617e-15, 0.0],
    [1.375, -0.31845373111855224, 1.7625431312172662e-14, 0.0],
    [1.3671875, -0.31275571000389846, 1.5688303180062087e-15, 0.0],
    [1.359375, -0.3070250352949415, 2.9655274673691784e-14, 0.0],
    [1.3515625, -0.3012613305781997, 3.7923164802093147e-14, 0.0],
    [1.34375, -0.2954642128938758, 3.993416384387844e-14, 0.0],
    [1.3359375, -0.28963329258306203, 1.9352855826489123e-14, 0.0],
    [1.3359375, -0.28963329258306203, 1.9352855826489123e-14, 0.0],
    [1.328125, -0.28376817313062475, -1.9852665484979036e-14, 0.0],
    [1.3203125, -0.27786845100342816, -2.814323765595281e-14, 0.0],
    [1.3125, -0.2719337154836694, 2.7643769993528702e-14, 0.0],
    [1.3046875, -0.2659635484970977, -4.025092402293806e-14, 0.0],
    [1.296875, -0.25995752443691345, -1.2621729398885316e-14, 0.0],
    [1.2890625, -0.25391520998095984, -3.600176732637335e-15, 0.0],
    [1.2890625, -0.25391520998095984, -3.600176732637335e-15, 0.0],
    [1.28125, -0.2478361639045943, 1.3029797173308663e-14, 0.0],
    [1.2734375, -0.2417199368871934, 4.8230289429940886e-14, 0.0],
    [1.265625, -0.23556607131274632, -2.0592242769647135e-14, 0.0],
    [1.2578125, -0.22937410106487732, 3.149265065191484e-14, 0.0],
    [1.25, -0.22314355131425145, 4.169796584527195e-14, 0.0],
    [1.25, -0.22314355131425145, 4.169796584527195e-14, 0.0],
    [1.2421875, -0.21687393830063684, 2.2477465222466186e-14, 0.0],
    [1.234375, -0.21056476910735, 3.6507188831790577e-16, 0.0],
    [1.2265625, -0.2042155414286526, -3.827767260205414e-14, 0.0],
    [1.2265625, -0.2042155414286526, -3.827767260205414e-14, 0.0],
    [1.21875, -0.19782574332987224, -4.7641388950792196e-14, 0.0],
    [1.2109375, -0.19139485299967873, 4.9278276214647115e-14, 0.0],
    [1.203125, -0.18492233849406148, 4.9485167661250996e-14, 0.0],
    [1.203125, -0.18492233849406148, 4.9485167661250996e-14, 0.0],
    [1.1953125, -0.1784076574728033, -1.5003333854266542e-14, 0.0],
    [1.1875, -0.17185025692663203, -2.7194441649495324e-14, 0.0],
    [1.1875, -0.17185025692663203, -2.7194441649495324e-14, 0.0],
    [1.1796875, -0.1652495728952772, -2.99659267292569e-14, 0.0],
    [1.171875, -0.15860503017665906, 2.0472357800461955e-14, 0.0],
    [1.171875, -0.15860503017665906, 2.0472357800461955e-14, 0.0],
    [1.1640625, -0.15191604202584585, 3.879296723063646e-15, 0.0],
    [1.15625, -0.1451820098444614, -3.6506824353335045e-14, 0.0],
    [1.1484375, -0.13840232285906495, -5.4183331379008994e-14, 0.0],
    [1.1484375, -0.13840232285906495, -5.4183331379008994e-14, 0.0],
    [1.140625, -0.131576357788731, 1.1729485484531301e-14, 0.0],
    [1.140625, -0.131576357788731, 1.1729485484531301e-14, 0.0],
    [1.1328125, -0.12470347850091912, -3.811763084710266e-14, 0.0],
    [1.125, -0.11778303565643, 4.654729747598445e-14, 0.0],
    [1.125, -0.11778303565643, 4.654729747598445e-14, 0.0],
    [1.1171875, -0.11081436634026431, -2.5799991283069902e-14, 0.0],
    [1.109375, -0.10379679368168127, 3.7700471749674615e-14, 0.0],
    [1.109375, -0.10379679368168127, 3.7700471749674615e-14, 0.0],
    [1.1015625, -0.09672962645856842, 1.7306161136093256e-14, 0.0],
    [1.1015625, -0.09672962645856842, 1.7306161136093256e-14, 0.0],
    [1.09375, -0.089612158689647, -4.012913552726574e-14, 0.0],
    [1.0859375, -0.08244366921110213, 2.7541708360737882e-14, 0.0],
    [1.0859375, -0.08244366921110213, 2.7541708360737882e-14, 0.0],
    [1.078125, -0.07522342123763792, 5.0396178134370583e-14, 0.0],
    [1.078125, -0.07522342123763792, 5.0396178134370583e-14, 0.0],
    [1.0703125, -0.06795066190852594, 1.8195060030168815e-14, 0.0],
    [1.0625, -0.06062462181648698, 5.213620639136504e-14, 0.0],
    [1.0625, -0.06062462181648698, 5.213620639136504e-14, 0.0],
    [1.0546875, -0.053244514518837605, 2.532168943117445e-14, 0.0],
    [1.0546875, -0.053244514518837605, 2.532168943117445e-14, 0.0],
    [1.046875, -0.045809536031242715, -5.148849572685811e-14, 0.0],
    [1.046875, -0.045809536031242715, -5.148849572685811e-14, 0.0],
    [1.0390625, -0.038318864302141264, 4.6652946995830086e-15, 0.0],
    [1.0390625, -0.038318864302141264, 4.6652946995830086e-15, 0.0],
    [1.03125, -0.03077165866670839, -4.529814257790929e-14, 0.0],
    [1.03125, -0.03077165866670839, -4.529814257790929e-14, 0.0],
    [1.0234375, -0.023167059281490765, -4.361324067851568e-14, 0.0],
    [1.015625, -0.015504186535963527, -1.7274567499706107e-15, 0.0],
    [1.015625, -0.015504186535963527, -1.7274567499706107e-15, 0.0],
    [1.0078125, -0.0077821404420319595, -2.298941004620351e-14, 0.0],
    [1.0078125, -0.0077821404420319595, -2.298941004620351e-14, 0.0],
    [1.0, 0.0, 0.0, 0.0],
    [1.0, 0.0, 0.0, 0.0],
    [0.9921875, 0.007843177461040796, -1.4902732911301337e-14, 0.0],
    [0.984375, 0.01574835696817445, -3.527980389655325e-14, 0.0],
    [0.9765625, 0.023716526617363343, -4.730054772033249e-14, 0.0],
    [0.96875, 0.03174869831457272, 7.580310369375161e-15, 0.0],
    [0.9609375, 0.039845908547249564, -4.9893776716773285e-14, 0.0],
    [0.953125, 0.048009219186383234, -2.262629393030674e-14, 0.0],
    [0.9453125, 0.056239718322899535, -2.345674491018699e-14, 0.0],
    [0.94140625, 0.06038051098892083, -1.3352588834854848e-14, 0.0],
    [0.93359375, 0.06871389254808946, -3.765296820388875e-14, 0.0],
    [0.92578125, 0.07711730334438016, 5.1128335719851986e-14, 0.0],
    [0.91796875, 0.08559193033545398, -5.046674438470119e-14, 0.0],
    [0.9140625, 0.08985632912185793, 3.1218748807418837e-15, 0.0],
    [0.90625, 0.09844007281321865, 3.3871241029241416e-14, 0.0],
    [0.8984375, 0.10709813555638448, -1.7376727386423858e-14, 0.0],
    [0.89453125, 0.11145544092528326, 3.957125899799804e-14, 0.0],
    [0.88671875, 0.12022742699821265, -5.2849453521890294e-14, 0.0],
    [0.8828125, 0.12464244520731427, -3.767012502308738e-14, 0.0],
    [0.875, 0.13353139262449076, 3.1859736349078334e-14, 0.0],
    [0.87109375, 0.13800567301939282, 5.0900642926060466e-14, 0.0],
    [0.86328125, 0.14701474296180095, 8.710783796122478e-15, 0.0],
    [0.859375, 0.15154989812720032, 6.157896229122976e-16, 0.0],
    [0.8515625, 0.16068238169043525, 3.821577743916796e-14, 0.0],
    [0.84765625, 0.16528009093906348, 3.9440046718453496e-14, 0.0],
    [0.83984375, 0.17453941635187675, 2.2924522154618074e-14, 0.0],
    [0.8359375, 0.17920142945774842, -3.742530094732263e-14, 0.0],
    [0.83203125, 0.18388527877016259, -2.5223102140407338e-14, 0.0],
    [0.82421875, 0.1933193110035063, -1.0320443688698849e-14, 0.0],
    [0.8203125, 0.19806991376208316, 1.0634128304268335e-14, 0.0],
    [0.8125, 0.20763936477828793, -4.3425422595242564e-14, 0.0],
    [0.80859375, 0.21245865121420593, -1.2527395755711364e-14, 0.0],
    [0.8046875, 0.21730127569003344, -5.204008743405884e-14, 0.0],
    [0.80078125, 0.22216746534115828, -3.979844515951702e-15, 0.0],
    [0.79296875, 0.2319714654378231, -4.7955860343296286e-14, 0.0],
    [0.7890625, 0.2369097470783572, 5.015686013791602e-16, 0.0],
    [0.78515625, 0.24187253642048745, -7.252318953240293e-16, 0.0],
    [0.78125, 0.2468600779315011, 2.4688324156011588e-14, 0.0],
    [0.7734375, 0.2569104137850218, 5.465121253624792e-15, 0.0],
    [0.76953125, 0.26197371574153294, 4.102651071698446e-14, 0.0],
    [0.765625, 0.2670627852490952, -4.996736502345936e-14, 0.0],
    [0.76171875, 0.27217788591576664, 4.903580708156347e-14, 0.0],
    [0.7578125, 0.27731928541618345, 5.089628039500759e-14, 0.0],
    [0.75390625, 0.28248725557466514, 1.1782016386565151e-14, 0.0],
    [0.74609375, 0.29290401643288533, 4.727452940514406e-14, 0.0],
    [0.7421875, 0.29815337231912054, -4.4204083338755686e-14, 0.0],
    [0.73828125, 0.3034304294199046, 1.548345993498083e-14, 0.0],
    [0.734375, 0.30873548164959175, 2.1522127491642888e-14, 0.0],
    [0.73046875, 0.3140688276249648, 1.1054030169005386e-14, 0.0],
    [0.7265625, 0.31943077076641657, -5.534326352070679e-14, 0.0],
    [0.72265625, 0.3248216194012912, -5.351646604259541e-14, 0.0],
    [0.71875, 0.33024168687052224, 5.4612144489920215e-14, 0.0],
    [0.71484375, 0.3356912916381134, 2.8136969901227338e-14, 0.0],
    [0.7109375, 0.3411707574027787, -1.156568624616423e-14, 0.0],
];
