//! The line of a program's log that says why it ended, out of the end of the log that its pod's status has.
//!
//! Invariant: what a log writes anew each time (time, thread, place in the source) is left out, so that a program that
//! ends again for the same reason says the same.

/// The first line that is an error; where none is one, the last line of all. None where there is nothing.
pub(super) fn first_error_line(log: &str) -> Option<String> {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back()?;
    let error = lines.find_map(error);
    Some(error.unwrap_or_else(|| words(last)).to_owned())
}

/// Programs that end before they have a log say it with one of these.
const BEGINNINGS: [&str; 3] = ["Error: ", "error: ", "panic: "];

/// What a line says, where it is an error.
fn error(line: &str) -> Option<&str> {
    let plain = || BEGINNINGS.iter().find_map(|begin| line.strip_prefix(begin));
    entry(line)
        .filter(|(level, _)| ['E', 'F'].contains(level))
        .map(|(_, words)| words)
        .or_else(plain)
}

fn words(line: &str) -> &str {
    entry(line).map_or(line, |(_, words)| words)
}

/// Level and words of an entry of a log of Kubernetes: `E1127 18:09:16.123456       1 run.go:72] "command failed"`.
fn entry(line: &str) -> Option<(char, &str)> {
    let (header, words) = line.split_once("] ")?;
    let mut letters = header.chars();
    let level = letters.next()?;
    let has_date = letters
        .by_ref()
        .take(4)
        .filter(char::is_ascii_digit)
        .count()
        == 4;
    (has_date && letters.next() == Some(' ')).then_some((level, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_error_of_a_log_is_told_without_what_changes_each_time() {
        let of = |log: &str| first_error_line(log).unwrap_or_default();
        let log = "ut off] half a line\n\
            I1127 18:09:15.000001       1 options.go:263] external host was not specified\n\
            W1127 18:09:15.000002       1 registry.go:347] setting componentGlobalsRegistry\n\
            E1127 18:09:16.123456       1 run.go:72] \"command failed\" err=\"cannot set feature gate X\"\n\
            E1127 18:09:16.123457       1 run.go:80] \"another\"\n";
        assert_eq!(
            of(log),
            "\"command failed\" err=\"cannot set feature gate X\""
        );
        let later = log.replace("18:09", "19:31").replace("1127", "1128");
        assert_eq!(of(&later), of(log));
        assert_eq!(of("usage\nError: unknown flag: --x\n"), "unknown flag: --x");
        assert_eq!(of("panic: nil map\n\ngoroutine 1:\nmain()"), "nil map");
        assert_eq!(of("F1127 18:09:16.123456 1 a.go:1] no"), "no");
    }

    #[test]
    fn last_line_is_told_where_none_is_an_error_and_nothing_where_there_is_none() {
        assert_eq!(first_error_line("a\n b \n\n").as_deref(), Some("b"));
        let told = first_error_line("I1127 18:09:15.000001       1 x.go:3] ends");
        assert_eq!(told.as_deref(), Some("ends"));
        for log in ["", "\n \n"] {
            assert_eq!(first_error_line(log), None);
        }
        for line in ["é] x", "] ", "E12é4 x] y"] {
            assert_eq!(first_error_line(line).as_deref(), Some(line.trim()));
        }
    }
}
