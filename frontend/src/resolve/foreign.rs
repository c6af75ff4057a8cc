//! Names that functions and constants have in other languages, and what stands in their place here.

/// What to say where a name is unknown that means something in another language.
pub(super) fn name(text: &str) -> Option<&'static str> {
    Some(match text {
        "mod" | "rem" | "fmod" => "the remainder is `a % b`, with the sign of `a`",
        "div" | "quot" => "the quotient of integers is `a / b`",
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
        "avg" | "average" => "it is called `mean`",
        "var" => "the variance is `variance xs`",
        "stdev" | "stddev" | "std_dev" | "sd" => "the standard deviation is `std xs`",
        "prod" => "it is called `product`",
        "amax" => "the greatest element is `maximum xs`",
        "amin" => "the least element is `minimum xs`",
        "clip" => "it is `clamp low high x`",
        "ceiling" => "it is called `ceil`",
        "rint" => "it is called `round`",
        "expit" | "logistic" => "it is called `sigmoid`",
        "gammaln" | "loggamma" | "log_gamma" => "it is called `lgamma`",
        "gradient" => "the gradient is `grad f x`, with the value `value_and_grad f x`",
        "jacfwd" | "jacrev" => "it is `jacobian f x`",
        "stop_gradient" => "it is called `detach`",
        "zeros" | "ones" => "one value n times is `replicate n 0.0`, in a matrix `[| 0.0 for _ < m, _ < n |]`",
        "full" | "fill" | "repeat" => "one value n times is `replicate n x`",
        "tabulate" | "generate" => "the array of `f 0`, `f 1`, .. is `build n f`, or `[| f i for i < n |]`",
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
        "raise" | "throw" | "failwith" | "panic" | "undefined" | "invalid_arg" => {
            "a program ends with an error by `error \"x = {x}\"`"
        }
        "hd" | "first" | "car" => "the first element is `head xs`",
        "tl" | "rest" | "cdr" => "the elements after the first one are `tail xs`",
        "cols" | "ncol" | "ncols" | "n_cols" | "num_cols" => "the number of columns of a matrix is `columns m`",
        "nrow" | "nrows" | "n_rows" | "num_rows" => "the number of rows of a matrix is `rows m`",
        "reshape" => "a matrix of the elements of a collection, row by row, is `matrix rows columns xs`",
        "vstack" => "the matrix with these rows is `from_rows [| xs, ys |]`",
        "det" => "with `import linalg` in the first line it is `linalg.determinant m`",
        "inv" => "with `import linalg` in the first line it is `linalg.inverse m`, and `linalg.solve m b`",
        "eye" => "with `import linalg` in the first line it is `linalg.identity n`",
        "norm" => "the Euclidean norm is `norm2 xs`; `import linalg` has `linalg.norm1` and `linalg.norm_max`",
        "diag" => {
            "with `import linalg` in the first line the diagonal is `linalg.diagonal m`, a matrix with it \
             `linalg.from_diagonal xs`"
        }
        "tril" => "with `import linalg` in the first line it is `linalg.lower_triangle m`",
        "triu" => "with `import linalg` in the first line it is `linalg.upper_triangle m`",
        "lstsq" => "with `import linalg` in the first line it is `linalg.least_squares m b`",
        "eig" | "eigh" | "eigen" => {
            "with `import linalg` in the first line it is `linalg.eigen_symmetric m`, of a symmetric matrix"
        }
        "inner" | "vdot" => "the inner product is `dot xs ys`",
        "arange" | "iota" => "the integers from a to b - 1 are `range a b`",
        "nth" | "elem_at" | "get" => "an element is `xs[i]`, of lists and of arrays",
        "from_array" | "toList" => "an array becomes a list with `to_list`",
        "from_list" | "toArray" => "a list becomes an array with `to_array`",
        "zipWith" | "map2" | "liftA2" | "zip_map" => "it is called `zip_with`",
        "zipWith3" | "map3" | "liftA3" => "it is called `zip_with3`",
        "mapi" | "imap" | "indexed" => {
            "each element has its index in `enumerate xs`: `map (\\(i, x) -> ..) (enumerate xs)`"
        }
        "vmap" => "of each element it is `map f xs`, in parallel `pmap f xs`",
        "flatMap" | "flat_map" => "it is called `concat_map`",
        "flatten" | "ravel" => "the elements of a matrix are `elements m`, those of many collections `concat xss`",
        "concatenate" => "of two collections it is `xs ++ ys`, of many `concat xss`",
        "push" | "push_back" | "snoc" => {
            "with another element at the end a list is `xs ++ [x]`, an array `xs ++ [| x |]`"
        }
        "elem" | "member" | "mem" | "contains" => "whether one of the elements is `x` says `any (== x) xs`",
        "exists" => "whether a test holds for an element says `any test xs`",
        "forall" | "for_all" => "whether a test holds for each element says `all test xs`",
        "rev" => "it is called `reverse`",
        "cumsum" => "running sums are `scan (+) 0 xs`",
        "cumprod" => "running products are `scan (*) 1 xs`",
        "accumulate" => "the values of a fold on its way are `scan f init xs`",
        "fun" | "fn" | "lambda" => "a function is written `\\x -> value`",
        "case" | "switch" => "a case distinction is written `match e with | pattern -> value | ..`",
        "where" | "select" | "cond" | "ifelse" => "a choice is written `if c then a else b`",
        "otherwise" => "the last choice follows `else`; the last case of a `match` is `| _ -> value`",
        "fori_loop" | "while_loop" => "a loop has an accumulator: `loop s = 0.0 for i < n do s + xs[i]`",
        "compose" => "the composition of functions is `f << g`",
        "return" => "an expression is its own value, without `return`: `def f x = let y = x * x in y + 1`",
        "e" => "Euler's number is `exp 1`",
        _ => return None,
    })
}
