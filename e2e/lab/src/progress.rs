//! Says what takes long while it takes long: spinners with elapsed times on a terminal, plain lines
//! without one, and a summary at the end.
//!
//! Invariant: every step that was begun says how it ended, also when its code returned early.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Without a terminal a step that runs on says so this often.
const STILL: Duration = Duration::from_secs(60);

/// Where the steps of one command are shown. Cheap to clone; clones share lines and summary.
#[derive(Clone)]
pub struct Progress {
    shared: Arc<Shared>,
}

struct Shared {
    begun: Instant,
    output: Output,
    rows: Mutex<Vec<Row>>,
}

enum Output {
    Terminal(MultiProgress),
    Lines(Mutex<Box<dyn Write + Send>>),
}

struct Row {
    text: String,
    took: Duration,
    ended: Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    Failed,
    Stopped,
}

impl Ended {
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl Progress {
    /// Shows on standard error; standard output stays free for results.
    #[must_use]
    pub fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Self::with(Output::Terminal(MultiProgress::new()))
        } else {
            Self::lines(Box::new(std::io::stderr()))
        }
    }

    /// Plain lines into `sink`, as without a terminal.
    #[must_use]
    pub fn lines(sink: Box<dyn Write + Send>) -> Self {
        Self::with(Output::Lines(Mutex::new(sink)))
    }

    fn with(output: Output) -> Self {
        let rows = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                begun: Instant::now(),
                output,
                rows,
            }),
        }
    }

    /// Begins a step: `text` is what is being done, as in `building etcd 3.6.16`.
    #[must_use]
    pub fn step(&self, text: impl Into<String>) -> Step {
        self.step_that_takes(text, "")
    }

    /// Begins a step and says at its beginning, and only there, what to expect: `about 5 min`.
    #[must_use]
    pub fn step_that_takes(&self, text: impl Into<String>, expect: &str) -> Step {
        let text = text.into();
        let first = if expect.is_empty() {
            text.clone()
        } else {
            format!("{text} ({expect})")
        };
        let bar = match &self.shared.output {
            Output::Terminal(terminal) => {
                let bar = terminal.add(ProgressBar::new_spinner());
                bar.set_style(running_style());
                bar.set_message(first);
                bar.enable_steady_tick(Duration::from_millis(120));
                Some(bar)
            }
            Output::Lines(_) => {
                self.line(&format!("{first} …"));
                None
            }
        };
        let begun = Instant::now();
        Step {
            progress: self.clone(),
            text,
            begun,
            said: begun,
            bar,
            ended: false,
        }
    }

    /// Says one sentence that belongs to no step.
    pub fn note(&self, text: impl AsRef<str>) {
        self.line(text.as_ref());
    }

    /// Everything that was done and how long each took, one line per step. Empty without steps.
    #[must_use]
    pub fn summary(&self) -> String {
        let rows = lock(&self.shared.rows);
        let width = rows
            .iter()
            .map(|row| row.text.chars().count())
            .max()
            .unwrap_or(0);
        let mut table = String::new();
        for Row { text, took, ended } in rows.iter() {
            // Writing to a String cannot fail.
            let _ = write!(table, "{text:<width$}  {:>8}", seconds(*took));
            if *ended != Ended::Done {
                let _ = write!(table, "  {}", ended.word());
            }
            table.push('\n');
        }
        if !rows.is_empty() {
            let all = seconds(self.shared.begun.elapsed());
            let _ = writeln!(table, "{:<width$}  {all:>8}", "altogether");
        }
        table
    }

    /// Shows the summary where the steps were shown.
    pub fn show_summary(&self) {
        let table = self.summary();
        match &self.shared.output {
            Output::Terminal(terminal) => {
                // A terminal that went away is no reason to fail what was done.
                let _ = terminal.println(table.trim_end());
            }
            Output::Lines(sink) => {
                let _ = lock(sink).write_all(table.as_bytes());
            }
        }
    }

    fn line(&self, text: &str) {
        let since = seconds(self.shared.begun.elapsed());
        // Whoever reads the lines may have gone; the work goes on.
        let _ = match &self.shared.output {
            Output::Terminal(terminal) => terminal.println(text),
            Output::Lines(sink) => writeln!(lock(sink), "[{since:>8}] {text}"),
        };
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// Something that takes a while. Dropped without [`Step::done`] it counts as stopped.
pub struct Step {
    progress: Progress,
    text: String,
    begun: Instant,
    said: Instant,
    bar: Option<ProgressBar>,
    ended: bool,
}

impl Step {
    /// Says more about what is being done, as in `3 of 8 images`. Only a terminal shows it.
    pub fn detail(&self, detail: impl AsRef<str>) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {}", self.text, detail.as_ref()));
        }
    }

    /// To be called now and then by code that waits: without a terminal a long step says once a
    /// minute that it is still at it, so that nobody takes it for dead.
    pub fn still(&mut self) {
        if self.bar.is_none() && self.said.elapsed() >= STILL {
            self.said = Instant::now();
            self.progress.line(&format!(
                "{} … since {}",
                self.text,
                seconds(self.begun.elapsed())
            ));
        }
    }

    /// How long the step has run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ends the step well.
    pub fn done(mut self) {
        self.end(Ended::Done);
    }

    /// Ends the step badly. The error itself is the caller's to report.
    pub fn failed(mut self) {
        self.end(Ended::Failed);
    }

    /// Ends the step by how its work ended.
    ///
    /// # Errors
    /// Hands `result` through as it is.
    pub fn finish<T, E>(self, result: Result<T, E>) -> Result<T, E> {
        if result.is_ok() {
            self.done();
        } else {
            self.failed();
        }
        result
    }

    fn end(&mut self, ended: Ended) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let took = self.begun.elapsed();
        let line = format!("{}: {} after {}", self.text, ended.word(), seconds(took));
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.progress.line(&line);
        lock(&self.progress.shared.rows).push(Row {
            text: self.text.clone(),
            took,
            ended,
        });
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.end(Ended::Stopped);
    }
}

/// `0.4 s`, `12.3 s`, `4 min 05 s`.
#[must_use]
pub fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 100 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

fn running_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

// A panic while a line was written leaves nothing half-changed that matters here.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
