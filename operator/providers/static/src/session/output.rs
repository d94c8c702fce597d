//! What a command said, within bounds.
//!
//! Invariant: no more than [`MOST`] bytes are kept of both streams together, and nothing leaves here with a secret.

use super::error::Error;
use super::text::{TAIL, last, printable};
use crate::answer::Answer;
use crate::secrets::Secrets;

/// Bytes of both streams together.
pub const MOST: usize = 64 * 1024;
/// Begins the line that the loader prints before it reads anything.
pub(super) const READY: &str = "covey-ready ";

/// Both streams of a command.
#[derive(Debug, Default)]
pub(super) struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Answers.
    Stdout,
    /// Complaints.
    Stderr,
}

impl Output {
    /// Keeps more, as far as it fits; false once it does not.
    pub(super) fn push(&mut self, stream: Stream, data: &[u8]) -> bool {
        let left = MOST - self.stdout.len() - self.stderr.len();
        let kept = &data[..data.len().min(left)];
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(kept),
            Stream::Stderr => self.stderr.extend_from_slice(kept),
        }
        data.len() <= left
    }

    /// Once the loader is ready: who it runs as. What a login shell prints before is skipped.
    pub(super) fn ready(&self) -> Option<u32> {
        let text = String::from_utf8_lossy(&self.stdout);
        let (line, _) = text.split_once(READY)?.1.split_once('\n')?;
        line.trim().parse().ok()
    }

    /// The one line after the loader's.
    pub(super) fn answer(&self, secrets: &Secrets) -> Result<Answer, Error> {
        let text = std::str::from_utf8(&self.stdout).unwrap_or_default();
        let after = text
            .split_once(READY)
            .and_then(|(_, rest)| rest.split_once('\n'));
        let mut lines = after
            .map_or("", |(_, rest)| rest)
            .lines()
            .filter(|line| !line.trim().is_empty());
        let why = match (lines.next(), lines.next()) {
            (Some(line), None) => match Answer::parse(line) {
                Ok(answer) => return Ok(answer),
                Err(why) => why,
            },
            (None, _) => "it is empty",
            (Some(_), Some(_)) => "it has more than one line",
        };
        Err(Error::Answer {
            why,
            said: self.tail(secrets),
        })
    }

    /// The end of what it said, for people: complaints where there are any.
    pub(super) fn tail(&self, secrets: &Secrets) -> String {
        let is_silent = self.stderr.is_empty();
        let stream = if is_silent {
            &self.stdout
        } else {
            &self.stderr
        };
        let mut end = stream.len();
        if self.stdout.len() + self.stderr.len() >= MOST {
            // Here a secret may have been cut in half.
            end = end.saturating_sub(secrets.longest());
        }
        let text = secrets.redact(&String::from_utf8_lossy(&stream[..end]));
        last(&printable(&text), TAIL).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stdout: &str) -> Output {
        let mut output = Output::default();
        assert!(output.push(Stream::Stdout, stdout.as_bytes()));
        output
    }

    #[test]
    fn noise_of_a_login_shell_is_skipped() {
        let output = said("Welcome!\ncovey-ready 0\n{\"result\":\"done\"}\n");
        assert_eq!(output.ready(), Some(0));
        let answer = output.answer(&Secrets::default()).unwrap();
        assert_eq!(answer.get("result"), "done");
        assert_eq!(said("covey-ready 10").ready(), None, "half of a line");
    }

    #[test]
    fn anything_but_one_line_is_no_answer() {
        for bad in ["", "{}\n{}\n", "no\n", "[]\n", "{\"a\":1}\n"] {
            let output = said(&format!("covey-ready 0\n{bad}"));
            assert!(output.answer(&Secrets::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_more_is_kept_than_fits_and_no_half_of_a_secret() {
        let mut secrets = Secrets::default();
        secrets.add("0123456789abcdef");
        let mut output = Output::default();
        let filler = "x".repeat(MOST - 8);
        assert!(output.push(Stream::Stderr, filler.as_bytes()));
        assert!(!output.push(Stream::Stderr, b"0123456789abcdef"));
        assert_eq!(output.stderr.len(), MOST);
        let tail = output.tail(&secrets);
        assert!(tail.len() <= TAIL && !tail.contains("0123"), "{tail}");
    }
}
