//! Tables of text.
//!
//! Invariant: names are never cut.

/// Columns one below the other, three spaces apart.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    Widths::of(lines).aligned(lines)
}

/// The same without the line of headings, which is the first one, where nobody wants it.
pub(crate) fn listed(mut lines: Vec<Vec<String>>, no_headers: bool) -> String {
    if no_headers && !lines.is_empty() {
        lines.remove(0);
    }
    aligned(&lines)
}

/// How wide columns are, for lines that come later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Widths(Vec<usize>);

impl Widths {
    /// As wide as the longest cell of each column.
    pub(crate) fn of(lines: &[Vec<String>]) -> Self {
        let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
        let width = |at: usize| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        Self((0..columns).map(width).collect())
    }

    /// These lines in columns so wide; a cell that is longer takes its room.
    pub(crate) fn aligned(&self, lines: &[Vec<String>]) -> String {
        let mut out = String::new();
        for line in lines {
            let mut written = String::new();
            for (at, cell) in line.iter().enumerate() {
                let width = self.0.get(at).copied().unwrap_or_default();
                let space = width.saturating_sub(cell.chars().count()) + 3;
                written.push_str(cell);
                written.extend(std::iter::repeat_n(' ', space));
            }
            out.push_str(written.trim_end());
            out.push('\n');
        }
        out
    }
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
    #[test]
    fn lines_that_come_later_stand_in_the_same_columns() {
        let lines = |all: &[[&str; 2]]| -> Vec<Vec<String>> {
            let all = all.iter();
            all.map(|line| line.map(str::to_owned).to_vec()).collect()
        };
        let widths = Widths::of(&lines(&[["NAME", "READY"], ["demo", "True"]]));
        assert_eq!(widths.aligned(&lines(&[["b", "False"]])), "b      False\n");
        let longer = lines(&[["a-long-name", "x"]]);
        assert_eq!(widths.aligned(&longer), "a-long-name   x\n");
        let first = lines(&[["NAME", "READY"], ["demo", "True"]]);
        assert_eq!(listed(first.clone(), true), "demo   True\n");
        assert_eq!(listed(first, false), "NAME   READY\ndemo   True\n");
    }
}
