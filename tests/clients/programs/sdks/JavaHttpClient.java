import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * Sends requests as LangChain4j and Spring AI do: by the client of the JDK with its defaults. It offers HTTP/2 with the
 * first request to a server (Upgrade: h2c), and uses the connection again. Prints one status and reply per line.
 */
public class JavaHttpClient {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        String body = "{\"model\": \"" + System.getenv("MODEL") + "\", \"input\": \"Say good day.\", \"stream\": %s}";
        for (String stream : new String[] {"false", "true", "false"}) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("BASE_URL") + "/responses"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(String.format(body, stream)))
                .build();
            HttpResponse<String> reply = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(reply.statusCode() + " " + reply.body().replace("\n", " "));
        }
        HttpRequest models = HttpRequest.newBuilder(URI.create(System.getenv("BASE_URL") + "/models")).build();
        System.out.println(client.send(models, HttpResponse.BodyHandlers.ofString()).statusCode());
    }
}
