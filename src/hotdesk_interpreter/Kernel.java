// A kernel of Java, over JShell. An order is a line: a number, then in base64 the code, and KEY and VALUE of each variable of
// this call.
// Variables are system properties. Events go out as lines of JSON; what code prints is output.
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import jdk.jshell.*;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;

public class Kernel {
  static PrintStream events;

  public static void main(String[] args) throws Exception {
    var orders = new BufferedReader(new InputStreamReader(new FileInputStream("/proc/self/fd/" + args[0]), "US-ASCII"));
    events = new PrintStream(new FileOutputStream("/proc/self/fd/" + args[1]), true, "UTF-8");
    var shell = JShell.builder().executionEngine("local").out(System.out).err(System.err).build();
    sun.misc.Signal.handle(new sun.misc.Signal("INT"), number -> shell.stop());
    for (var line : List.of("java.util.*", "java.util.stream.*", "java.io.*", "java.math.*", "java.nio.file.*"))
      shell.eval("import " + line + ";");
    for (String line; (line = orders.readLine()) != null; ) {
      var number = Integer.parseInt(line.substring(0, line.indexOf(' ')));
      var words = Arrays.stream(line.substring(line.indexOf(' ') + 1).split(" ", -1)).map(Kernel::decode).toList();
      var before = new HashMap<String, String>();
      for (int at = 1; at + 1 < words.size(); at += 2)
        before.put(words.get(at), System.setProperty(words.get(at), words.get(at + 1)));
      try {
        run(shell, words.get(0));
      } catch (Exception e) {
        fail(e.getClass().getSimpleName(), String.valueOf(e.getMessage()), e.toString());
      }
      before.forEach((key, value) -> {
        if (value == null) System.clearProperty(key); else System.setProperty(key, value);
      });
      System.out.flush();
      System.err.flush();
      events.println("{\"type\":\"end\",\"number\":" + number + "}");
    }
    System.exit(0);
  }

  static String decode(String word) {
    return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
  }

  static void run(JShell shell, String code) throws JShellException {
    String value = null;
    for (String rest = code; !rest.isBlank(); ) {
      CompletionInfo found = shell.sourceCodeAnalysis().analyzeCompletion(rest);
      var source = found.source() == null || found.source().isEmpty() ? rest : found.source();
      rest = found.remaining() == null || found.source() == null ? "" : found.remaining();
      value = null;
      for (SnippetEvent event : shell.eval(source)) {
        if (event.exception() instanceof EvalException e) {
          fail(e.getExceptionClassName(), String.valueOf(e.getMessage()), e.getExceptionClassName() + ": " + e.getMessage());
          return;
        }
        if (event.status() == Snippet.Status.REJECTED) {
          var text = new StringJoiner("\n");
          shell.diagnostics(event.snippet()).forEach(each -> text.add(each.getMessage(Locale.ENGLISH)));
          fail("CompileError", text.toString(), text.toString());
          return;
        }
        if (event.causeSnippet() == null && event.snippet() instanceof ExpressionSnippet) value = event.value();
        else if (event.causeSnippet() == null && event.snippet().kind() == Snippet.Kind.VAR
            && event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND) value = event.value();
      }
    }
    if (value != null && value.length() > 1 && value.startsWith("\"") && value.endsWith("\""))
      value = value.substring(1, value.length() - 1);
    if (value != null && !value.isEmpty())
      events.println("{\"type\":\"result\",\"is_main_result\":true,\"text\":" + quote(value) + "}");
  }

  static void fail(String name, String value, String trace) {
    events.println("{\"type\":\"error\",\"name\":" + quote(name) + ",\"value\":" + quote(value) + ",\"traceback\":"
        + quote(trace) + "}");
  }

  static String quote(String text) {
    var out = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each == '"' || each == '\\') out.append('\\').append(each);
      else if (each < 0x20 || Character.isSurrogate(each)) out.append(String.format("\\u%04x", (int) each));
      else out.append(each);
    }
    return out.append('"').toString();
  }
}
