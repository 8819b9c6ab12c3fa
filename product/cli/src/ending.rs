//! How a command ends: its exit status, and its error on stderr.

use std::process::ExitCode;

/// The exit status of a command. An error is printed with its causes.
#[must_use]
pub fn status(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", whole(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes. Many errors print their cause in the middle of their own message, so a
/// cause that was printed is left out.
fn whole(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether the only failure is that the reader of the output closed it, as `| head` does.
fn is_unread(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A cause that its error prints is printed once; one that its error leaves out follows it.
    #[test]
    fn causes_are_printed_once() {
        #[derive(Debug)]
        struct Listen(std::io::Error);
        impl std::fmt::Display for Listen {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "cannot listen: {}; use another address", self.0)
            }
        }
        impl std::error::Error for Listen {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = anyhow::Error::new(Listen(std::io::Error::other("in use")));
        assert_eq!(whole(&error), "cannot listen: in use; use another address");
        assert_eq!(
            whole(&error.context("no start")),
            "no start: cannot listen: in use; use another address"
        );
    }
}
