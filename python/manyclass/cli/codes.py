"""Exit codes of the command."""

USER_ERROR = 2
INTERRUPTED = 130  # the shell's number: 128 + SIGINT
CLOSED_PIPE = 141  # 128 + SIGPIPE

EXIT_CODES = """exit codes:
  0    all went well; serve was ended by SIGTERM or Ctrl-C
  1    a run of an experiment failed
  2    a user's error, told in one line on stderr; nothing was overwritten
  130  interrupted by Ctrl-C; fit and skipgram save what was reached, if there was a whole model, and say so
  141  the reader of the output has gone"""
