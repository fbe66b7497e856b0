import java.util.List;
import java.util.Map;
import org.springframework.http.MediaType;
import org.springframework.http.client.BufferingClientHttpRequestFactory;
import org.springframework.http.client.JdkClientHttpRequestFactory;
import org.springframework.web.client.RestClient;

/** Sends one body by default, and by the line of the page; prints the status of each answer. */
class WithSpring {
    public static void main(String[] arguments) {
        var byLine = /* the line of the page */;
        for (var client : List.of(RestClient.create(), byLine)) {
            var status = client.post()
                .uri(arguments[0])
                .header("X-API-Key", System.getenv("KEY"))
                .contentType(MediaType.APPLICATION_JSON)
                .body(Map.of("registrations", List.of("AB12CDE")))
                .exchange((request, answer) -> answer.getStatusCode().value());
            System.out.println(status);
        }
    }
}
