//! Tables of text.
//!
//! Invariant: names are never cut.

/// Columns one below the other, three spaces apart.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|line| line.get(at));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut written = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let space = width.saturating_sub(cell.chars().count()) + 3;
            written.push_str(cell);
            written.extend(std::iter::repeat_n(' ', space));
        }
        out.push_str(written.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let lines = [["NAME", "READY"], ["demo", "True"], ["a-longer-name", ""]];
        let lines = lines.map(|line| line.map(str::to_owned).to_vec());
        let expected = "NAME            READY\ndemo            True\na-longer-name\n";
        assert_eq!(aligned(&lines), expected);
    }
}
