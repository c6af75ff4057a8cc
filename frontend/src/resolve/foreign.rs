//! Names that functions and constants have in other languages, and what stands in their place here.

/// What to say where a name is unknown that means something in another language.
pub(super) fn name(text: &str) -> Option<&'static str> {
    Some(match text {
        "mod" | "rem" | "fmod" => "the remainder is `a % b`, with the sign of `a`",
        "div" => "the quotient of integers is `a / b`",
        "band" | "land" => "the bits that two integers share are `bit_and a b`",
        "bor" | "lor" => "the bits of either of two integers are `bit_or a b`",
        "xor" | "bxor" | "lxor" => "exclusive or is `bit_xor a b` for integers, `a != b` for truth values",
        "bnot" | "lnot" | "complement" => "the inverted bits of an integer are `bit_not a`",
        "shl" | "lsl" | "shiftl" | "shiftL" => "the left shift is `shift_left a n`",
        "shr" | "asr" | "lsr" | "shiftr" | "shiftR" => "the right shift, with sign, is `shift_right a n`",
        "popcount" | "popCount" | "popcnt" => "the number of bits that are 1 is `bit_count a`",
        "clz" | "countLeadingZeros" => "it is called `leading_zeros`",
        "ctz" | "countTrailingZeros" => "it is called `trailing_zeros`",
        "or" => "logical or is `||`",
        "float" | "real" | "toReal" | "to_float" | "fromIntegral" | "double" => {
            "an `Int` becomes a `Real` with `to_real`"
        }
        "int" | "toInt" | "truncate" => "a `Real` becomes an `Int` with `to_int`, which cuts off the fraction",
        "pow" | "power" | "expt" => "a power is written `x ^ y`",
        "sqr" => "the square is `x ^ 2` or `square x`, the root `sqrt x`",
        "arcsin" => "it is called `asin`",
        "arccos" => "it is called `acos`",
        "arctan" => "it is called `atan`",
        "arctan2" => "it is called `atan2`",
        "arcsinh" | "arsinh" => "it is called `asinh`",
        "arccosh" | "arcosh" => "it is called `acosh`",
        "arctanh" | "artanh" => "it is called `atanh`",
        "percentile" => "with `import stats` in the first line it is `stats.quantile (p / 100) xs`",
        "zeros" | "ones" => "one value n times is `replicate n 0.0`, in a matrix `[| 0.0 for _ < m, _ < n |]`",
        "print" | "println" | "printf" | "debug" | "show" | "log_value" => {
            "values are shown by `trace \"x = {x}\" x`, which is `x`"
        }
        "null" => "a value that may be missing is `Nothing` or `Just x`; the empty list is `[]`",
        "nil" => "the empty list is `[]`",
        "inf" => "write `infinity`",
        "is" => "equality is written `==`",
        "as" => "an `Int` becomes a `Real` with `to_real`, a `Real` an `Int` with `to_int`",
        "ln" => "the natural logarithm is `log`",
        "foldl" | "fold_left" | "reduce" => "the fold from the left is `fold f init xs`",
        "fold_right" => "the fold from the right is `foldr f init xs`",
        "len" | "size" | "numel" => "the number of elements is `length xs`",
        "end" => "the last element is `last xs` or `xs[length xs - 1]`; nothing ends a block",
        "begin" => "an expression stands in parentheses: `(let y = x * x in y + 1)`",
        "raise" | "throw" | "failwith" | "panic" | "invalid_arg" => {
            "a program ends with an error by `error \"x = {x}\"`"
        }
        "hd" | "first" | "car" => "the first element is `head xs`",
        "tl" | "rest" | "cdr" => "the elements after the first one are `tail xs`",
        "det" => "with `import linalg` in the first line it is `linalg.determinant m`",
        "inv" => "with `import linalg` in the first line it is `linalg.inverse m`, and `linalg.solve m b`",
        "eye" => "with `import linalg` in the first line it is `linalg.identity n`",
        "norm" => "the Euclidean norm is `norm2 xs`; `import linalg` has `linalg.norm1` and `linalg.norm_max`",
        "arange" => "the integers from a to b - 1 are `range a b`",
        "nth" | "elem_at" | "get" => "an element is `xs[i]`, of lists and of arrays",
        "from_array" | "toList" => "an array becomes a list with `to_list`",
        "from_list" | "toArray" => "a list becomes an array with `to_array`",
        "zipWith" => "it is called `zip_with`",
        "fun" | "fn" | "lambda" => "a function is written `\\x -> value`",
        "case" | "switch" => "a case distinction is written `match e with | pattern -> value | ..`",
        "return" => "an expression is its own value, without `return`: `def f x = let y = x * x in y + 1`",
        "e" => "Euler's number is `exp 1`",
        _ => return None,
    })
}
