//! Colourings of sparsity patterns: which columns share a product.
//!
//! Columns of a Jacobian that have no row in common can be had from one product: that is a colouring of the columns at
//! distance two in the graph of rows and columns (Curtis, Powell and Reid 1974). For a Hessian, symmetry lets more
//! columns share one: of two entries that are equal by symmetry it is enough to have one, which a star colouring of its
//! graph grants (Coleman and Moré 1984). Both are greedy: a column takes the first colour that is free, in each of
//! several orders, and the colouring with the fewest colours is kept (Gebremedhin, Manne and Pothen 2005).

use super::pattern::Pattern;
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use rustc_hash::FxHashMap;

/// A colour for each column, from 0 on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Coloring {
    pub(crate) of_columns: Vec<u32>,
    pub(crate) colors: usize,
}

/// What is multiplied with a matrix so that all of its entries can be read off the products: a vector for each colour,
/// with 1 for each column of it.
#[derive(Debug)]
pub(crate) struct Compression {
    coloring: Coloring,
    /// Where the entries of each colour's product begin in the list below, and where the last one's end.
    starts: Vec<usize>,
    /// The places of entries in the pattern, each with its place in the product.
    sources: Vec<[u32; 2]>,
}

impl Compression {
    /// `sources` has for each entry of the pattern, in order, the colour of the product that it is read off, and its
    /// place there.
    pub(crate) fn new(coloring: Coloring, sources: &[[u32; 2]]) -> Self {
        let mut starts = vec![0; coloring.colors + 1];
        sources.iter().for_each(|[color, _]| starts[*color as usize + 1] += 1);
        for color in 0..coloring.colors {
            starts[color + 1] += starts[color];
        }
        let (mut next, mut by_color) = (starts.clone(), vec![[0; 2]; sources.len()]);
        for (entry, &[color, place]) in sources.iter().enumerate() {
            let to = &mut next[color as usize];
            by_color[*to] = [entry as u32, place];
            *to += 1;
        }
        Compression { coloring, starts, sources: by_color }
    }

    /// How many products have all entries.
    pub(crate) fn products(&self) -> usize {
        self.coloring.colors
    }

    /// The vector of a product. That of the product behind the last one has nothing in common with the others: numbers
    /// from 1 to 2, of either sign, as if drawn by lot.
    pub(crate) fn factors(&self, product: usize, factors: &mut Vec<f64>) {
        factors.clear();
        let colors = &self.coloring.of_columns;
        if product == self.coloring.colors {
            factors.extend((0..colors.len()).map(lot));
        } else {
            factors.extend(colors.iter().map(|&color| if color as usize == product { 1.0 } else { 0.0 }));
        }
    }

    /// Reads entries off a product.
    pub(crate) fn read(&self, product: usize, reals: &[f64], values: &mut [f64]) {
        for &[entry, place] in &self.sources[self.starts[product]..self.starts[product + 1]] {
            values[entry as usize] = reals[place as usize];
        }
    }
}

fn lot(n: usize) -> f64 {
    let mut bits = (n as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    bits ^= bits >> 32;
    let size = f64::from_bits(1f64.to_bits() | bits >> 12);
    if bits & 1 == 0 { size } else { -size }
}

/// No colour yet.
const NONE: u32 = u32::MAX;

/// A colouring of the columns of a Jacobian: columns with a row in common have different colours. `columns` is its
/// transposed pattern. Takes time in proportion to the sum over all entries of the lengths of their rows.
///
/// # Errors
/// What the watch says.
pub(crate) fn of_columns(rows: &Pattern, columns: &Pattern, watch: &Watch<'_>) -> Result<Coloring, TrapKind> {
    let neighbours = |column: usize| columns.row(column).iter().flat_map(|&row| rows.row(row as usize));
    let mut degrees = Vec::with_capacity(columns.rows());
    for column in 0..columns.rows() {
        let degree = columns.row(column).iter().map(|&row| rows.row(row as usize).len() - 1).sum::<usize>();
        watch.tick(columns.row(column).len())?;
        degrees.push(degree);
    }
    let least = (0..rows.rows()).map(|row| rows.row(row).len()).max().unwrap_or(0);
    best(&degrees, least, watch, |order, watch| {
        let mut colors = vec![NONE; columns.rows()];
        let mut forbidden = Forbidden::default();
        for &column in order {
            watch.tick(1 + degrees[column as usize])?;
            forbidden.begin();
            neighbours(column as usize).for_each(|&other| forbidden.add(colors[other as usize]));
            // A column without entries is in no product.
            let is_empty = columns.row(column as usize).is_empty();
            colors[column as usize] = if is_empty { 0 } else { forbidden.first_free() };
        }
        Ok(colors)
    })
}

/// A star colouring of the graph of a symmetric pattern: neighbours have different colours, and every path of four
/// vertices has at least three. Then for each entry (i, j), j is the only column of its colour in row i, or i is the
/// only column of its colour in row j.
///
/// Two colours induce stars, and each edge is in one of them. A vertex knows the colours of its neighbours, with one
/// star for each, and the hubs of the stars that it is a spoke of, so that a vertex is coloured without a look at
/// neighbours of neighbours (after Gebremedhin, Tarafdar, Manne and Pothen 2007, algorithm 4.1): a hub with a million
/// spokes costs no more than a million vertices.
///
/// # Errors
/// What the watch says.
pub(crate) fn star(pattern: &Pattern, watch: &Watch<'_>) -> Result<Coloring, TrapKind> {
    let degree = |vertex: usize| pattern.row(vertex).iter().filter(|&&other| other as usize != vertex).count();
    watch.tick(pattern.len())?;
    let degrees: Vec<usize> = (0..pattern.rows()).map(degree).collect();
    // Two colours are enough for stars, and for nothing else: each edge has an end without other edges.
    let is_spoke = |(a, b): (usize, usize)| a == b || degrees[a] == 1 || degrees[b] == 1;
    let least =
        if !pattern.entries().all(is_spoke) { 3 } else { 1 + usize::from(pattern.entries().any(|(a, b)| a != b)) };
    best(&degrees, least, watch, |order, watch| {
        let mut stars = Stars::new(pattern.rows());
        for &vertex in order {
            stars.color(vertex, pattern.row(vertex as usize), watch)?;
        }
        Ok(stars.colors)
    })
}

/// The best of several orders: as they come, those with the most neighbours first, and from the last to the first. It
/// ends when there are as few colours as there can be.
fn best(
    degrees: &[usize],
    least: usize,
    watch: &Watch<'_>,
    color: impl Fn(&[u32], &Watch<'_>) -> Result<Vec<u32>, TrapKind>,
) -> Result<Coloring, TrapKind> {
    let count = degrees.len() as u32;
    let natural = || (0..count).collect::<Vec<_>>();
    let largest_first = || {
        let mut order = natural();
        order.sort_by_key(|&vertex| std::cmp::Reverse(degrees[vertex as usize]));
        order
    };
    let backwards = || (0..count).rev().collect::<Vec<_>>();
    let orders: [&dyn Fn() -> Vec<u32>; 3] = [&natural, &largest_first, &backwards];
    let mut best: Option<Coloring> = None;
    for order in orders {
        watch.tick(8 * degrees.len())?;
        let of_columns = color(&order(), watch)?;
        let colors = of_columns.iter().max().map_or(0, |&color| color as usize + 1);
        if best.as_ref().is_none_or(|best| colors < best.colors) {
            best = Some(Coloring { of_columns, colors });
        }
        if best.as_ref().is_some_and(|best| best.colors <= least) {
            break;
        }
    }
    Ok(best.expect("there are orders"))
}

/// The colours that a vertex can't have.
#[derive(Default)]
struct Forbidden {
    /// For each colour, the last vertex that couldn't have it.
    by: Vec<u32>,
    vertex: u32,
}

impl Forbidden {
    fn begin(&mut self) {
        self.vertex += 1;
    }

    fn add(&mut self, color: u32) {
        if color == NONE {
            return;
        }
        if self.by.len() <= color as usize {
            self.by.resize(color as usize + 1, 0);
        }
        self.by[color as usize] = self.vertex;
    }

    fn first_free(&self) -> u32 {
        self.by.iter().position(|&vertex| vertex != self.vertex).unwrap_or(self.by.len()) as u32
    }
}

/// A star of two colours.
#[derive(Clone, Copy)]
struct Star {
    /// The centre; [`NONE`] while there is one edge.
    hub: u32,
    /// The ends of the first edge.
    ends: [u32; 2],
}

/// Short lists of pairs, one for each vertex, in one place.
#[derive(Default)]
struct Lists {
    /// The last pair of each list, and the one before each pair.
    last: Vec<u32>,
    pairs: Vec<([u32; 2], u32)>,
}

impl Lists {
    fn new(count: usize) -> Self {
        Lists { last: vec![NONE; count], pairs: Vec::new() }
    }

    fn push(&mut self, list: u32, pair: [u32; 2]) {
        let last = &mut self.last[list as usize];
        self.pairs.push((pair, *last));
        *last = self.pairs.len() as u32 - 1;
    }

    /// The pairs of a list, the last one first.
    fn of(&self, list: u32) -> impl Iterator<Item = [u32; 2]> + '_ {
        let mut at = self.last[list as usize];
        std::iter::from_fn(move || {
            let &(pair, before) = self.pairs.get(at as usize)?;
            at = before;
            Some(pair)
        })
    }
}

/// A star colouring that is being made.
struct Stars {
    colors: Vec<u32>,
    stars: Vec<Star>,
    /// For each vertex, the colours that its neighbours have, with the star of an edge to such a neighbour.
    around: Lists,
    /// The same for vertices with neighbours of many colours.
    crowded: FxHashMap<[u32; 2], u32>,
    /// How many colours there are around each vertex.
    counts: Vec<u32>,
    /// For each vertex, the stars of which it is a spoke, with their hubs.
    spokes: Lists,
    forbidden: Forbidden,
    /// For each colour, the last vertex with such a neighbour, and the first of these.
    first_of: Vec<[u32; 2]>,
    /// For each vertex, the last one whose neighbours' colours were forbidden because of it.
    treated: Vec<u32>,
}

/// A vertex with neighbours of more colours is crowded.
const CROWD: u32 = 16;

impl Stars {
    fn new(vertices: usize) -> Self {
        Stars {
            colors: vec![NONE; vertices],
            stars: Vec::new(),
            around: Lists::new(vertices),
            crowded: FxHashMap::default(),
            counts: vec![0; vertices],
            spokes: Lists::new(vertices),
            forbidden: Forbidden::default(),
            first_of: vec![[NONE; 2]; vertices],
            treated: vec![NONE; vertices],
        }
    }

    /// Colours a vertex with these neighbours, which may name itself.
    fn color(&mut self, vertex: u32, neighbours: &[u32], watch: &Watch<'_>) -> Result<(), TrapKind> {
        watch.tick(16 * neighbours.len())?;
        self.forbidden.begin();
        let colored = |colors: &[u32], other: u32| other != vertex && colors[other as usize] != NONE;
        for &other in neighbours {
            if !colored(&self.colors, other) {
                continue;
            }
            let color = self.colors[other as usize];
            self.forbidden.add(color);
            let [known, first] = &mut self.first_of[color as usize];
            if *known == vertex {
                // The vertex becomes a hub: none of its neighbours of this colour may be one for the vertex's.
                let first = *first;
                self.treat(vertex, first, watch)?;
                self.treat(vertex, other, watch)?;
            } else {
                (*known, *first) = (vertex, other);
                for [_, hub] in self.spokes.of(other) {
                    watch.tick(1)?;
                    self.forbidden.add(self.colors[hub as usize]);
                }
            }
        }
        let color = self.forbidden.first_free();
        for &other in neighbours {
            if colored(&self.colors, other) {
                let of_other = self.colors[other as usize];
                let star = self.join((vertex, color), (other, of_other));
                self.add_around(vertex, of_other, star);
                self.add_around(other, color, star);
            }
        }
        self.colors[vertex as usize] = color;
        Ok(())
    }

    /// Forbids a vertex the colours of all neighbours of one of its own.
    fn treat(&mut self, vertex: u32, neighbour: u32, watch: &Watch<'_>) -> Result<(), TrapKind> {
        if std::mem::replace(&mut self.treated[neighbour as usize], vertex) != vertex {
            for [color, _] in self.around.of(neighbour) {
                watch.tick(1)?;
                self.forbidden.add(color);
            }
        }
        Ok(())
    }

    /// The star of the edge from a vertex to a neighbour of this colour, if there is one.
    fn star(&self, vertex: u32, color: u32) -> Option<u32> {
        if self.counts[vertex as usize] > CROWD {
            return self.crowded.get(&[vertex, color]).copied();
        }
        self.around.of(vertex).find(|&[of, _]| of == color).map(|[_, star]| star)
    }

    /// The star of the edge from a vertex to a neighbour that was coloured before.
    fn join(&mut self, (vertex, color): (u32, u32), (other, of_other): (u32, u32)) -> u32 {
        if let Some(star) = self.star(other, color) {
            // The neighbour has another one of this colour: it is the hub.
            self.add_spoke(star, other, vertex);
            star
        } else if let Some(star) = self.star(vertex, of_other) {
            // The vertex has another one of that colour: it is the hub.
            self.add_spoke(star, vertex, other);
            star
        } else {
            self.stars.push(Star { hub: NONE, ends: [vertex, other] });
            self.stars.len() as u32 - 1
        }
    }

    /// Adds a spoke to a star, which has its hub from its second edge on.
    fn add_spoke(&mut self, star: u32, hub: u32, spoke: u32) {
        let Star { hub: known, ends } = &mut self.stars[star as usize];
        if *known == NONE {
            *known = hub;
            let first = if ends[0] == hub { ends[1] } else { ends[0] };
            self.spokes.push(first, [star, hub]);
        }
        debug_assert_eq!(*known, hub, "two colours induce stars");
        self.spokes.push(spoke, [star, hub]);
    }

    /// Notes that a vertex has a neighbour of this colour, and the star of the edge to it.
    fn add_around(&mut self, vertex: u32, color: u32, star: u32) {
        if self.star(vertex, color).is_some() {
            return;
        }
        self.around.push(vertex, [color, star]);
        let count = &mut self.counts[vertex as usize];
        *count += 1;
        if *count == CROWD + 1 {
            self.crowded.extend(self.around.of(vertex).map(|[color, star]| ([vertex, color], star)));
        } else if *count > CROWD {
            self.crowded.insert([vertex, color], star);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn symmetric(size: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Pattern {
        let both = edges.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
        Pattern::from_entries(size, size, both)
    }

    fn star_of(pattern: &Pattern) -> Coloring {
        let coloring = star(pattern, &Watch::none()).expect("nobody stops it");
        check_star(pattern, &coloring);
        coloring
    }

    /// Each entry can be read off: from the definition of what a star colouring is for.
    fn check_star(pattern: &Pattern, Coloring { of_columns, .. }: &Coloring) {
        let alone = |row: usize, column: usize| {
            let same = |&&other: &&u32| of_columns[other as usize] == of_columns[column];
            pattern.row(row).iter().filter(same).count() == 1
        };
        for (row, column) in pattern.entries() {
            assert!(alone(row, column) || alone(column, row), "({row}, {column}) of {:?}", of_columns);
        }
    }

    fn columns_of(pattern: &Pattern) -> Coloring {
        let coloring = of_columns(pattern, &pattern.transposed(), &Watch::none()).expect("nobody stops it");
        for row in 0..pattern.rows() {
            let mut colors: Vec<u32> =
                pattern.row(row).iter().map(|&column| coloring.of_columns[column as usize]).collect();
            colors.sort_unstable();
            assert!(colors.windows(2).all(|pair| pair[0] != pair[1]), "row {row}");
        }
        coloring
    }

    #[test]
    fn a_band_takes_its_width() {
        let entries = |n: usize| (0..n).flat_map(move |i| [(i, i), (i, (i + 1).min(n - 1)), (i, i.saturating_sub(1))]);
        assert_eq!(columns_of(&Pattern::from_entries(50, 50, entries(50))).colors, 3);
        assert_eq!(star_of(&symmetric(50, entries(50))).colors, 3);
    }

    #[test]
    fn an_arrow_takes_two_products() {
        let size = if cfg!(miri) { 50 } else { 20_000 };
        let arrow = symmetric(size, (0..size).flat_map(|n| [(n, n), (n, size - 1)]));
        assert_eq!(star_of_large(&arrow).colors, 2);
    }

    /// [`star_of`] without the check, which takes quadratic time.
    fn star_of_large(pattern: &Pattern) -> Coloring {
        star(pattern, &Watch::none()).expect("nobody stops it")
    }

    #[test]
    fn a_dense_matrix_takes_as_many_as_it_has_columns() {
        let dense = symmetric(12, (0..12).flat_map(|a| (0..12).map(move |b| (a, b))));
        assert_eq!(star_of(&dense).colors, 12);
        assert_eq!(columns_of(&dense).colors, 12);
        let diagonal = symmetric(12, (0..12).map(|n| (n, n)));
        assert_eq!((star_of(&diagonal).colors, columns_of(&diagonal).colors), (1, 1));
        let nothing = Pattern::from_entries(0, 0, []);
        assert_eq!((star_of(&nothing).colors, columns_of(&nothing).colors), (0, 0));
    }

    #[test]
    fn every_entry_of_random_patterns_can_be_read_off() {
        let mut dice = Rng::with_seed(7);
        for round in 0..if cfg!(miri) { 10 } else { 3000 } {
            let size = 1 + round % 40;
            let edges = dice.usize(..3 * size + 1);
            let mut random = || dice.usize(..size);
            let entries: Vec<(usize, usize)> = (0..edges).map(|_| (random(), random())).collect();
            star_of(&symmetric(size, entries.iter().copied()));
            columns_of(&Pattern::from_entries(size, size, entries));
        }
    }
}
