# A kernel of R. Orders come as lines: a number and JSON. Events go out as lines of JSON; what code prints is output.
suppressPackageStartupMessages(library(jsonlite))
options(warn = 1)
local({
  paths <- paste0("/proc/self/fd/", commandArgs(trailingOnly = TRUE)[1:2])
  orders <- file(paths[1], "r", blocking = TRUE, raw = TRUE)
  events <- file(paths[2], "w", raw = TRUE)
  pictures <- file.path(tempdir(), "plot-%03d.png")
  options(device = function(...) grDevices::png(pictures, width = 800, height = 600))

  tell <- function(...) {
    writeLines(toJSON(list(...), auto_unbox = TRUE), events)
    flush(events)
  }

  fail <- function(condition) {
    name <- if (inherits(condition, "interrupt")) "Interrupted" else "Error"
    text <- if (inherits(condition, "interrupt")) "interrupted" else conditionMessage(condition)
    call <- conditionCall(condition)
    trace <- if (is.null(call)) text else paste0("Error in ", paste(deparse(call), collapse = " "), ": ", text)
    tell(type = "error", name = name, value = text, traceback = trace)
  }

  run <- function(code) {
    cells <- parse(text = code, keep.source = FALSE)
    for (place in seq_along(cells)) {
      found <- withVisible(eval(cells[[place]], globalenv()))
      if (!found$visible) next
      if (place < length(cells)) {
        print(found$value)
      } else {
        text <- paste(capture.output(print(found$value)), collapse = "\n")
        tell(type = "result", is_main_result = TRUE, text = text)
      }
    }
  }

  show_pictures <- function() {
    if (grDevices::dev.cur() > 1) grDevices::graphics.off()
    for (picture in sort(list.files(tempdir(), "^plot-[0-9]+\\.png$", full.names = TRUE))) {
      data <- base64_enc(readBin(picture, "raw", file.size(picture)))
      tell(type = "result", is_main_result = FALSE, png = gsub("\n", "", data))
      unlink(picture)
    }
  }

  # Only a cell is interrupted: an interruption that came when the one before was over is dropped.
  suspendInterrupts(while (length(line <- readLines(orders, n = 1, warn = FALSE)) > 0) {
    cut <- regexpr(" ", line, fixed = TRUE)
    number <- as.integer(substr(line, 1, cut - 1))
    order <- fromJSON(substring(line, cut + 1), simplifyVector = FALSE)
    before <- character()
    if (length(order$env) > 0) {
      before <- Sys.getenv(names(order$env), names = TRUE, unset = NA)
      do.call(Sys.setenv, order$env)
    }
    tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(condition) NULL)
    tryCatch(allowInterrupts(run(order$code)), error = fail, interrupt = fail)
    tryCatch(show_pictures(), error = fail)
    for (name in names(before)) {
      if (is.na(before[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, as.list(before[name]))
    }
    flush(stdout())
    flush(stderr())
    tell(type = "end", number = number)
  })
})
