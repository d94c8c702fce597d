//! Names that look like one that is not there.
//!
//! Invariant: pure; without a near one nothing is guessed.

/// The nearest of these names, where it is near.
pub(crate) fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    let near = all.map(|other| (distance(name, other), other));
    let near = near.filter(|(distance, _)| *distance <= most);
    near.min().map(|(_, other)| other)
}

/// How many letters are to be changed, with two neighbours that are swapped as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let is_other = usize::from(a[i - 1] != b[j - 1]);
            let change = rows[i - 1][j - 1] + is_other;
            let mut best = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_guessed() {
        let all = ["demo", "production", "staging"];
        assert_eq!(nearest("dmeo", all.into_iter()), Some("demo"));
        assert_eq!(nearest("prodution", all.into_iter()), Some("production"));
        assert_eq!(nearest("test", all.into_iter()), None);
        assert_eq!(nearest("", [].into_iter()), None);
    }
}
