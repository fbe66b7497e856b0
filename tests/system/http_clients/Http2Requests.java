import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;

/** Requests an address so many times, with so many threads, and prints one outcome a line. */
class Http2Requests {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(arguments[0])).build();
        var threads = Executors.newFixedThreadPool(Integer.parseInt(arguments[1]));
        var client = HttpClient.newHttpClient();
        var calls = new ArrayList<Callable<String>>();
        for (var number = Integer.parseInt(arguments[2]); number > 0; number--) {
            calls.add(() -> {
                try {
                    var answer = client.send(request, BodyHandlers.ofString());
                    return answer.version() + " " + answer.statusCode();
                } catch (Exception error) {
                    return error.toString();
                }
            });
        }
        for (var outcome : threads.invokeAll(calls)) {
            System.out.println(outcome.get());
        }
        threads.shutdown();
    }
}
